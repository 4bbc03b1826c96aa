"""Making and reshaping values: program ids, ranges, constants, casts, views of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator import dtypes, run
from grader.simulator import index as formulas
from grader.simulator.arguments import element_type, numbers
from grader.simulator.constants import plain
from grader.simulator.dtypes import dtype, float64, int1, int32, int64, pointer_type
from grader.simulator.errors import UnsupportedError, refuse
from grader.simulator.index import Index
from grader.simulator.values import Value, formula_value, member, value_of

# the names that kernels know as tl.<name>
LANGUAGE = (
    "program_id",
    "num_programs",
    "arange",
    "full",
    "zeros",
    "zeros_like",
    "cast",
    "to_tensor",
)

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
    if not isinstance(given, tuple | list):
        refuse(f"a shape is a tuple of constants such as (BLOCK,), not {given!r}")
    sizes = tuple(constant(n, "an axis of a block") for n in given)
    for n in sizes:
        if n < 1 or n & (n - 1):
            refuse(f"shape {sizes}: each axis must be a power of 2, and {n} is not")
    if np.prod(sizes, dtype=object) > MAX_BLOCK_ELEMENTS:
        refuse(f"shape {sizes}: a block has at most {MAX_BLOCK_ELEMENTS} elements")
    return sizes


def varargs(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as several arguments or as one sequence."""
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


def full(shape: Any, value: Any, dtype: Any) -> Value:
    """A block filled with one number."""
    given, sizes = numbers(value, "tl.full"), block_shape(shape)
    t = element_type(dtype)
    if given.shape and given.numel != 1:
        refuse(f"tl.full takes one number, not a block of shape {given.shape}")
    filler = dtypes.convert(given.data, given.dtype, t)
    filler = filler.reshape(filler.shape[0], *(1,) * len(sizes))
    return Value(np.broadcast_to(filler, filler.shape[:1] + sizes), t)


def zeros(shape: Any, dtype: Any) -> Value:
    """A block of zeros."""
    return full(shape, 0, dtype)


def zeros_like(input: Any) -> Value:  # noqa: A002  Triton's keyword
    """Zeros in the shape and type of another block."""
    if not isinstance(plain(input), Value):
        refuse("tl.zeros_like takes a value of the kernel; use tl.zeros")
    given = numbers(input, "tl.zeros_like")
    return Value(np.zeros((1, *given.shape), given.dtype.compute), given.dtype)


@member
def to(self: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Value:
    """The value in another type."""
    return cast(self, dtype, fp_downcast_rounding, bitcast)


@member
def cast(
    input: Any,  # noqa: A002  Triton's keyword
    dtype: Any,
    fp_downcast_rounding: Any = None,
    bitcast: Any = False,
) -> Value:
    """The value in another type: round to nearest even, truncate to integers."""
    given, t = value_of(input), plain(dtype)
    if isinstance(given.dtype, pointer_type) or isinstance(t, pointer_type):
        return _cast_pointer(given, t)
    target = element_type(t)
    if plain(bitcast):
        return _bitcast(given, target)
    if target is given.dtype:
        return given
    if plain(fp_downcast_rounding) is not None:
        return _downcast(given, target, plain(fp_downcast_rounding))
    formula = given.formula
    if type(formula) is Index and target.is_int() and not target.is_bool():  # noqa: SIM102
        if target.lowest <= formula.low and formula.high <= target.highest:
            return formula_value(formula, target)
    return Value(dtypes.convert(given.data, given.dtype, target), target)


def _cast_pointer(given: Value, t: Any) -> Value:
    if given.dtype == t:
        return given
    if given.argument is not None and t is int64:
        buffer = given.argument.buffer
        return Value(buffer.address + given.data * buffer.dtype.itemsize, int64)
    raise UnsupportedError(
        f"the simulator does not cast {given.dtype} to {t}; pass a tensor of the right dtype, as by "
        "x.view(dtype)"
    )


def _bitcast(given: Value, target: dtype) -> Value:
    if given.dtype.primitive_bitwidth != target.primitive_bitwidth:
        refuse(f"cannot bitcast {given.dtype} to {target}: their widths differ")
    if dtypes.is_lifted() and (given.dtype.is_floating() or target.is_floating()):
        if given.dtype is target:
            return given
        raise UnsupportedError("a bitcast has no meaning while precision is lifted to float64")
    return Value(target.decode(given.dtype.encode(given.data).view(target.storage)), target)


def _downcast(given: Value, target: dtype, rounding: Any) -> Value:
    """A float as a narrower one, with the rounding that the kernel asks for."""
    if rounding not in {"rtne", "rtz"}:
        refuse(f"fp_downcast_rounding={rounding!r}: use 'rtne' or 'rtz'")
    narrower = target.primitive_bitwidth < given.dtype.primitive_bitwidth
    if not (target.is_floating() and given.dtype.is_floating() and narrower):
        refuse(f"fp_downcast_rounding is for narrower floats, not for {given.dtype} to {target}")
    if rounding == "rtz" and target.rounds:
        if given.dtype is float64:
            raise UnsupportedError("the simulator rounds float64 to nearest: cast to tl.float32")
        return Value(target.truncate(given.data), target)
    return Value(dtypes.convert(given.data, given.dtype, target), target)


def to_tensor(x: Any) -> Value:
    """A number as a value."""
    return value_of(x)


def to_bool(x: Any) -> Value:
    """Non-zero, as int1."""
    given = value_of(x)
    return given if given.dtype is int1 else Value(given.data != 0, int1)
