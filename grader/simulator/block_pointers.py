"""Block pointers: a window of fixed size moving over a strided tensor; and what tl.load takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator import access, creation, index
from grader.simulator.comparisons import bitwise, compare
from grader.simulator.constants import plain
from grader.simulator.creation import cast
from grader.simulator.dtypes import int64, pointer_type
from grader.simulator.errors import refuse
from grader.simulator.mathematics import mul
from grader.simulator.operators import add
from grader.simulator.values import Value, formula_value, value_of

# the names that kernels know as tl.<name>
LANGUAGE = (
    "load",
    "store",
    "make_block_ptr",
    "advance",
)


def sequence(x: Any) -> list[Any]:
    """One or several numbers as a list."""
    given = plain(x)
    return list(given) if isinstance(given, tuple | list) else [given]


_PADDING = {"": None, "zero": 0, "nan": float("nan")}


def padding_value(option: Any) -> float | None:
    """What lanes outside read; None leaves it open."""
    given = plain(option)
    if given not in _PADDING:
        refuse(f"padding_option={given!r}: use 'zero' or 'nan'")
    return _PADDING[given]


class BlockPointer:
    """What tl.make_block_ptr returns."""

    def __init__(
        self,
        base: Value,
        extent: list[Any],
        strides: list[Any],
        offsets: list[Any],
        block: tuple[int, ...],
    ) -> None:
        if not len(extent) == len(strides) == len(offsets) == len(block):
            refuse("shape, strides, offsets and block_shape must have the same length")
        self.base = base
        self.extent = extent
        self.strides = strides
        self.offsets = offsets
        self.block = block

    @property
    def dtype(self) -> Any:
        """Pointer type."""
        return self.base.dtype

    type = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the block."""
        return self.block

    block_shape = shape

    def at(self, offsets: list[Any]) -> BlockPointer:
        """The same window elsewhere."""
        return BlockPointer(self.base, self.extent, self.strides, offsets, self.block)

    def lanes(self, checked_axes: list[int]) -> tuple[Value, Value | None]:
        """Pointers of the block, and the mask that the checked axes give."""
        pointer, mask, rank = self.base, None, len(self.block)
        for d, n in enumerate(self.block):
            steps = formula_value(index.lanes(0, n), int64)
            at = add(cast(self.offsets[d], int64), steps)
            place = (None,) * d + (slice(None),) + (None,) * (rank - 1 - d)
            pointer = add(pointer, mul(at, cast(self.strides[d], int64))[place])
            if d in checked_axes:
                inside = bitwise(
                    np.bitwise_and,
                    compare(np.greater_equal, at, 0),
                    compare(np.less, at, self.extent[d]),
                )[place]
                mask = inside if mask is None else bitwise(np.bitwise_and, mask, inside)
        return pointer, mask


def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> BlockPointer:
    """A block pointer into the tensor at ``base``."""
    if sorted(sequence(order)) != list(range(len(sequence(block_shape)))):
        refuse(f"order={tuple(sequence(order))} must name each axis of the block once")
    if not isinstance(base, Value) or not isinstance(base.dtype, pointer_type):
        refuse("tl.make_block_ptr begins with a pointer, such as x_ptr + row * row_stride")
    return BlockPointer(
        base,
        scalars(shape, "shape"),
        scalars(strides, "strides"),
        scalars(offsets, "offsets"),
        creation.block_shape(block_shape),
    )


def scalars(given: Any, what: str) -> list[Any]:
    """One integer for each axis, values or numbers."""
    numbers = sequence(given)
    for number in numbers:
        value = value_of(number)
        if value.shape or value.argument is not None or not value.dtype.is_int():
            refuse(f"{what}: one integer for each axis, not {value.dtype} of shape {value.shape}")
    return numbers


def advance(base: Any, offsets: Any) -> BlockPointer:
    """Move a block pointer."""
    if not isinstance(base, BlockPointer):
        refuse("tl.advance moves what tl.make_block_ptr returns; add to other pointers")
    steps = scalars(offsets, "offsets")
    if len(steps) != len(base.block):
        refuse(f"tl.advance: this block pointer takes {len(base.block)} offsets, not {len(steps)}")
    return base.at([add(value_of(a), b) for a, b in zip(base.offsets, steps, strict=True)])


setattr(BlockPointer, "advance", advance)  # noqa: B010  a function of the language and a method


_EVICTION = ("", "evict_first", "evict_last")


def _check_hints(cache_modifier: Any, eviction_policy: Any, modifiers: tuple[str, ...]) -> None:
    cache, eviction = plain(cache_modifier) or "", plain(eviction_policy) or ""
    if cache not in modifiers:
        refuse(f"cache_modifier={cache!r}: use one of {', '.join(map(repr, modifiers))}")
    if eviction not in _EVICTION:
        refuse(f"eviction_policy={eviction!r}: use one of {', '.join(map(repr, _EVICTION))}")
    if cache and eviction:
        refuse(
            f"NVIDIA's assembler refuses {cache!r} together with {eviction!r}: give "
            "cache_modifier or eviction_policy, not both"
        )


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Value:
    """tl.load through a pointer, a block of pointers, or a block pointer."""
    if cache_modifier or eviction_policy:
        _check_hints(cache_modifier, eviction_policy, ("", ".ca", ".cg", ".cv"))
    if not isinstance(pointer, BlockPointer):
        if sequence(boundary_check):
            refuse("boundary_check belongs to block pointers; give tl.load a mask")
        if plain(padding_option):
            refuse("padding_option belongs to block pointers; give tl.load a mask and other")
        if plain(other) is not None and plain(mask) is None:
            refuse("tl.load: `other` cannot be provided without `mask`")
        return access.load(pointer, mask, other)
    if plain(mask) is not None or plain(other) is not None:
        refuse("a load through a block pointer takes boundary_check, not mask or other")
    if plain(padding_option) == "nan" and not pointer.dtype.element_ty.is_floating():
        refuse("padding_option='nan' is for floats; use 'zero'")
    lanes, inside = pointer.lanes(_axes(pointer, boundary_check))
    return access.load(lanes, inside, padding_value(padding_option))


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """tl.store through a pointer, a block of pointers, or a block pointer."""
    if cache_modifier or eviction_policy:
        _check_hints(cache_modifier, eviction_policy, ("", ".wb", ".cg", ".cs", ".wt"))
    if not isinstance(pointer, BlockPointer):
        if sequence(boundary_check):
            refuse("boundary_check belongs to block pointers; give tl.store a mask")
        access.store(pointer, value, mask)
        return
    if plain(mask) is not None:
        refuse("a store through a block pointer takes boundary_check, not a mask")
    given, t = value_of(value), pointer.dtype.element_ty
    if given.dtype is not t:
        refuse(
            f"tl.store: the block pointer is to {t}, the value {given.dtype}: write value.to({t.name}); "
            "through a block pointer nothing is converted"
        )
    shape = given.shape
    if shape and shape != pointer.block:
        refuse(f"tl.store: the block has shape {pointer.block}, the value {shape}")
    lanes, inside = pointer.lanes(_axes(pointer, boundary_check))
    access.store(lanes, value, inside)


def _axes(pointer: BlockPointer, boundary_check: Any) -> list[int]:
    given = plain(boundary_check)
    axes = [] if given is None else sequence(given)
    if any(not isinstance(a, int) or a not in range(len(pointer.block)) for a in axes):
        refuse(f"boundary_check={tuple(axes)}: this block has axes 0 to {len(pointer.block) - 1}")
    return axes
