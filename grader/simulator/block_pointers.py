"""Block pointers and tensor descriptors: a window of fixed size moving over a strided tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator import access, atomics, creation, index
from grader.simulator.comparisons import bitwise, compare
from grader.simulator.constants import plain
from grader.simulator.creation import cast
from grader.simulator.dtypes import int64
from grader.simulator.errors import refuse
from grader.simulator.mathematics import mul
from grader.simulator.operators import add
from grader.simulator.values import Value, formula_value, value_of


def _sequence(x: Any) -> list[Any]:
    given = plain(x)
    return list(given) if isinstance(given, tuple | list) else [given]


# what lanes outside read; "" leaves it open
_PADDING = {"": None, "zero": 0, "nan": float("nan")}


def _padding(option: Any) -> float | None:
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
        fill: float | None = None,
    ) -> None:
        if not len(extent) == len(strides) == len(offsets) == len(block):
            refuse("shape, strides, offsets and block_shape must have the same length")
        self.base = base
        self.extent = extent
        self.strides = strides
        self.offsets = offsets
        self.block = block
        self.fill = fill

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
        return BlockPointer(self.base, self.extent, self.strides, offsets, self.block, self.fill)

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

    # tensor descriptors: every axis is checked, outside reads as zero (or NaN)
    def load(self, offsets: Any) -> Value:
        """A block at these offsets."""
        pointer, mask = self.at(_sequence(offsets)).lanes(list(range(len(self.block))))
        return access.load(pointer, mask, self.fill)

    def store(self, offsets: Any, value: Any) -> None:
        """Write a block at these offsets."""
        pointer, mask = self.at(_sequence(offsets)).lanes(list(range(len(self.block))))
        access.store(pointer, value, mask)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """Add a block at these offsets."""
        pointer, mask = self.at(_sequence(offsets)).lanes(list(range(len(self.block))))
        atomics.atomic("add", pointer, (value,), mask)


def make_block_ptr(
    base: Value, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> BlockPointer:
    """A block pointer into the tensor at ``base``."""
    return BlockPointer(
        base, _sequence(shape), _sequence(strides), _sequence(offsets), _sizes(block_shape)
    )


def _sizes(shape: Any) -> tuple[int, ...]:
    return creation.block_shape(shape)


def advance(base: BlockPointer, offsets: Any) -> BlockPointer:
    """Move a block pointer."""
    moved = [add(value_of(a), b) for a, b in zip(base.offsets, _sequence(offsets), strict=True)]
    return base.at(moved)


setattr(BlockPointer, "advance", advance)  # noqa: B010 - a function of the language and a method


def make_tensor_descriptor(
    base: Value, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> BlockPointer:
    """A tensor descriptor, which checks every axis."""
    extent = _sequence(shape)
    fill = _padding(plain(padding_option) or "zero")
    return BlockPointer(
        base, extent, _sequence(strides), [0] * len(extent), _sizes(block_shape), fill
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
    if not isinstance(pointer, BlockPointer):
        if _sequence(boundary_check):
            refuse("boundary_check belongs to block pointers; give tl.load a mask")
        if plain(other) is not None and plain(mask) is None:
            refuse("tl.load: `other` cannot be provided without `mask`")
        return access.load(pointer, mask, other)
    if plain(mask) is not None or plain(other) is not None:
        refuse("a load through a block pointer takes boundary_check, not mask or other")
    lanes, inside = pointer.lanes(_axes(pointer, boundary_check))
    return access.load(lanes, inside, _padding(padding_option))


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """tl.store through a pointer, a block of pointers, or a block pointer."""
    if not isinstance(pointer, BlockPointer):
        if _sequence(boundary_check):
            refuse("boundary_check belongs to block pointers; give tl.store a mask")
        access.store(pointer, value, mask)
        return
    if plain(mask) is not None:
        refuse("a store through a block pointer takes boundary_check, not a mask")
    lanes, inside = pointer.lanes(_axes(pointer, boundary_check))
    access.store(lanes, value, inside)


def _axes(pointer: BlockPointer, boundary_check: Any) -> list[int]:
    return [int(a) % len(pointer.block) for a in _sequence(boundary_check)]
