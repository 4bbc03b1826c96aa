"""Making and reshaping values: program ids, ranges, constants, casts, views of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.simulator import dtypes, run
from grader.simulator import index as formulas
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, dtype, int1, int32, int64, pointer_type
from grader.simulator.errors import UnsupportedError, refuse
from grader.simulator.index import Index
from grader.simulator.values import Value, align, formula_value, index_of, member, value_of

MAX_BLOCK_ELEMENTS = 1 << 20  # triton.language.core.TRITON_MAX_TENSOR_NUMEL
_AXES = 3


def integer(x: Any) -> int:
    """An integer that is the same in all programs of the pass."""
    given = plain(x)
    if isinstance(given, Value | int | np.integer) and not isinstance(given, bool):
        return int(given.__index__())
    return refuse(f"an integer is needed here, not {given!r}")


def constant(x: Any, what: str) -> int:
    """A compile-time integer."""
    given = plain(x)
    if isinstance(given, Value):
        refuse(f"{what} must be a tl.constexpr, but it is computed while the kernel runs")
    return integer(given)


def block_shape(shape: Any) -> tuple[int, ...]:
    """A shape given as one sequence; each axis a power of two, known at compile time."""
    given = plain(shape)
    axes = given if isinstance(given, tuple | list) else (given,)
    sizes = tuple(constant(n, "an axis of a block") for n in axes)
    for n in sizes:
        if n < 1 or n & (n - 1):
            refuse(f"shape {sizes}: each axis must be a power of 2, and {n} is not")
    if np.prod(sizes, dtype=object) > MAX_BLOCK_ELEMENTS:
        refuse(f"shape {sizes}: a block has at most {MAX_BLOCK_ELEMENTS} elements")
    return sizes


def _varargs(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(plain(shape[0]), tuple | list):
        return block_shape(shape[0])
    return block_shape(shape)


def program_id(axis: Any) -> Value:
    """Index of the program along an axis of the grid, int32."""
    axis, current = _grid_axis(axis), run.current()
    if axis not in current.program_ids:
        along = current.coordinates[axis]
        same = (along == along[0]).all()
        current.program_ids[axis] = formulas.of_programs(along[:1] if same else along)
    return formula_value(current.program_ids[axis], int32)


def num_programs(axis: Any) -> Value:
    """Size of the grid along an axis, int32."""
    return formula_value(formulas.constant(run.current().launch.grid[_grid_axis(axis)]), int32)


def _grid_axis(axis: Any) -> int:
    given = plain(axis)
    if given not in range(_AXES):
        refuse(f"the axis of a grid is 0, 1 or 2, not {given!r}")
    return int(given)


def arange(start: Any, end: Any) -> Value:
    """``start, ..., end - 1``, int32; the length is a power of two."""
    first = constant(start, "the start of tl.arange")
    last = constant(end, "the end of tl.arange")
    n = last - first
    if n <= 0 or n & (n - 1):
        refuse(
            f"tl.arange({first}, {last}) has {n} elements: arange's range must be a power of 2; "
            "round up with triton.next_power_of_2 and mask the rest"
        )
    return formula_value(formulas.lanes(first, n), int32)


def full(shape: Any, value: Any, dtype: Any = None) -> Value:
    """A block filled with one number."""
    given, sizes = value_of(value), block_shape(shape)
    t = given.dtype if plain(dtype) is None else _scalar(dtype)
    if given.shape and given.numel != 1:
        refuse(f"tl.full takes one number, not a block of shape {given.shape}")
    filler = dtypes.convert(given.data, given.dtype, t)
    filler = filler.reshape(filler.shape[0], *(1,) * len(sizes))
    return Value(np.broadcast_to(filler, filler.shape[:1] + sizes), t)


def zeros(shape: Any, dtype: Any) -> Value:
    """A block of zeros."""
    return full(shape, 0, dtype)


def zeros_like(input: Any) -> Value:  # noqa: A002 - Triton's keyword
    """Zeros in the shape and type of another block."""
    given = value_of(input)
    return Value(np.zeros((1, *given.shape), given.dtype.compute), given.dtype)


def _scalar(t: Any) -> dtype:
    given = plain(t)
    if not isinstance(given, dtype):
        refuse(f"a type such as tl.float32 is needed here, not {given!r}")
    return given


@member
def to(self: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Value:
    """The value in another type."""
    return cast(self, dtype, fp_downcast_rounding, bitcast)


@member
def cast(
    input: Any,  # noqa: A002 - Triton's keyword
    dtype: Any,
    fp_downcast_rounding: Any = None,
    bitcast: Any = False,
) -> Value:
    """The value in another type: round to nearest even, truncate to integers."""
    given, t = value_of(input), plain(dtype)
    if isinstance(given.dtype, pointer_type) or isinstance(t, pointer_type):
        if given.dtype == t:
            return given
        if given.argument is not None and t is int64:
            buffer = given.argument.buffer
            return Value(buffer.address + given.data * buffer.dtype.itemsize, int64)
        raise UnsupportedError(
            f"the simulator does not cast {given.dtype} to {t}; pass a tensor of the right dtype"
        )
    target = _scalar(t)
    if plain(fp_downcast_rounding) not in {None, "rtne"}:
        raise UnsupportedError("the simulator rounds to nearest even only (rtne)")
    if plain(bitcast):
        return _bitcast(given, target)
    if target is given.dtype:
        return given
    formula = given.formula
    if type(formula) is Index and target.is_int() and not target.is_bool():  # noqa: SIM102
        if target.lowest <= formula.low and formula.high <= target.highest:
            return formula_value(formula, target)
    return Value(dtypes.convert(given.data, given.dtype, target), target)


def _bitcast(given: Value, target: dtype) -> Value:
    if given.dtype.primitive_bitwidth != target.primitive_bitwidth:
        refuse(f"cannot bitcast {given.dtype} to {target}: their widths differ")
    if dtypes.is_lifted() and given.dtype.is_floating() != target.is_floating():
        raise UnsupportedError("a bitcast has no meaning while precision is lifted to float64")
    stored = np.ascontiguousarray(given.data.astype(given.dtype.storage, copy=False))
    return Value(target.decode(stored.view(target.storage)), target)


def to_tensor(x: Any) -> Value:
    """A number as a value."""
    return value_of(x)


@member
def expand_dims(input: Any, axis: Any) -> Value:  # noqa: A002 - Triton's keyword
    """Insert axes of size 1."""
    given, axes = value_of(input), plain(axis)
    for a in sorted(axes if isinstance(axes, tuple | list) else (axes,)):
        rank = len(given.shape)
        if not -rank - 1 <= a <= rank:
            refuse(f"axis {a} is out of range for a block of shape {given.shape}")
        at = a if a >= 0 else a + rank + 1
        given = given.expanded([slice(None)] * at + [None] + [slice(None)] * (rank - at))
    return given


@member
def broadcast_to(input: Any, *shape: Any) -> Value:  # noqa: A002 - Triton's keyword
    """Repeat axes of size 1."""
    given, sizes = value_of(input), _varargs(shape)
    if type(given.formula) is Index:
        # a zero of that shape
        shaped = Index((1, *sizes), 0, (0,) * (len(sizes) + 1), None, 0, 0)
        spread = formulas.plus(given.formula, shaped)
        if spread is not None and spread.shape[1:] == sizes:
            return formula_value(spread, given.dtype, given.argument)
    data, _ = align(given.data, np.empty((1, *sizes), np.bool_))
    if any(m not in {1, n} for m, n in zip(data.shape[1:], sizes, strict=True)):
        refuse(f"a block of shape {given.shape} cannot be broadcast to {sizes}")
    return Value(np.broadcast_to(data, data.shape[:1] + sizes), given.dtype, given.argument)


def broadcast(input: Any, other: Any) -> tuple[Value, Value]:  # noqa: A002 - Triton's keyword
    """Both in their common shape."""
    a, b = value_of(input), value_of(other)
    shape = np.broadcast_shapes(*(x.shape[1:] for x in align(a.data, b.data)))
    return broadcast_to(a, shape), broadcast_to(b, shape)


@member
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> Value:  # noqa: A002
    """The same elements, in row-major order, in another shape."""
    given, sizes = value_of(input), _varargs(shape)
    if np.prod(sizes, dtype=int) != given.numel:
        refuse(f"a block of shape {given.shape} cannot be reshaped to {sizes}")
    return Value(given.data.reshape(given.data.shape[:1] + sizes), given.dtype, given.argument)


@member
def view(input: Any, *shape: Any) -> Value:  # noqa: A002 - Triton's keyword
    """The same elements in another shape."""
    return reshape(input, *shape)


@member
def ravel(x: Any, can_reorder: Any = False) -> Value:
    """The same elements in one axis."""
    return reshape(x, value_of(x).numel)


@member
def trans(input: Any, *dims: Any) -> Value:  # noqa: A002 - Triton's keyword
    """Permute axes; without ``dims`` swap the last two."""
    given = value_of(input)
    if not dims:
        if len(given.shape) < 2:  # noqa: PLR2004 - two axes to swap
            refuse(f"tl.trans needs two axes, not shape {given.shape}")
        return given.T
    return permute(given, *dims)


@member
def permute(input: Any, *dims: Any) -> Value:  # noqa: A002 - Triton's keyword
    """Reorder axes."""
    given = value_of(input)
    order = plain(dims[0]) if len(dims) == 1 else plain(dims)
    if sorted(order) != list(range(len(given.shape))):
        refuse(f"{tuple(order)} is no order of the axes of shape {given.shape}")
    return given.permuted([0, *(d + 1 for d in order)])


def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> Value:  # noqa: A002
    """Concatenate two blocks along an axis."""
    a, b = _same_programs(value_of(input), value_of(other))
    return Value(np.concatenate([a, b], axis=plain(dim) + 1), value_of(input).dtype)


def join(a: Any, b: Any) -> Value:
    """Stack two blocks along a new last axis."""
    x, y = broadcast(a, b)
    return Value(np.stack(_same_programs(x, y), axis=-1), x.dtype)


@member
def split(a: Any) -> tuple[Value, Value]:
    """Undo join."""
    given = value_of(a)
    if not given.shape or given.shape[-1] != 2:  # noqa: PLR2004 - two halves
        refuse(f"tl.split needs a last axis of 2, not shape {given.shape}")
    return Value(given.data[..., 0], given.dtype), Value(given.data[..., 1], given.dtype)


def interleave(a: Any, b: Any) -> Value:
    """Elements of a and b in turn along the last axis."""
    joined = join(a, b)
    shape = (*joined.shape[:-2], 2 * joined.shape[-2])
    return reshape(joined, shape)


def _same_programs(a: Value, b: Value) -> list[Array]:
    n = max(a.data.shape[0], b.data.shape[0])
    return [np.broadcast_to(x.data, (n, *x.shape)) for x in (a, b)]


def kernel_range(*bounds: Any, **_options: Any) -> Iterator[Any]:
    """range() inside a kernel: programs must agree on the number of turns, not on the start."""
    start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    parts = [value_of(b) for b in (start, stop, step)]
    for part in parts:
        if not part.dtype.is_int() or part.shape:
            refuse(f"range() takes integers, not {part.dtype} of shape {part.shape}")
    wide = any(p.dtype.primitive_bitwidth > 32 for p in parts)  # noqa: PLR2004 - int32
    first, last, by = (p.data.astype(np.int64) for p in parts)
    if (by == 0).any():
        refuse("the step of range() is 0")
    turns = Value(np.maximum(0, -((first - last) // by)), int64).__index__()
    t = int64 if wide else int32
    starts, steps = index_of(Value(first, int64)), index_of(Value(by, int64))
    for k in range(turns):
        turn = (
            None
            if starts is None or steps is None
            else formulas.plus(starts, formulas.times(steps, k))
        )
        if turn is not None and t.lowest <= turn.low and turn.high <= t.highest:
            yield formula_value(turn, t)
        else:
            yield Value((first + by * k).astype(t.storage), t)


def static_range(*bounds: Any, **_options: Any) -> range:
    """range() unrolled by the compiler: bounds are constants, and so is the index."""
    return range(*(constant(b, "a bound of tl.static_range") for b in bounds))


def to_bool(x: Any) -> Value:
    """Non-zero, as int1."""
    given = value_of(x)
    return given if given.dtype is int1 else Value(given.data != 0, int1)
