"""Reductions and scans along an axis of a block."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from grader.simulator import dtypes
from grader.simulator.arguments import (
    axis_of,
    combiner,
    element_type,
    flag,
    integers,
    numbers,
)
from grader.simulator.constants import plain
from grader.simulator.creation import block_shape
from grader.simulator.dtypes import Array, bfloat16, dtype, float32, int32, uint32
from grader.simulator.errors import refuse
from grader.simulator.operators import result
from grader.simulator.shapes import ravel
from grader.simulator.values import Value, member, value_of

# the names that kernels know as tl.<name>
LANGUAGE = (
    "sum",
    "max",
    "min",
    "argmax",
    "argmin",
    "xor_sum",
    "reduce_or",
    "reduce",
    "associative_scan",
    "cumsum",
    "cumprod",
    "gather",
    "histogram",
)

_Reducer = Callable[..., Array]


def _axis(x: Value, axis: Any) -> int:
    return axis_of(x, axis) + 1


def _reduce(reducer: _Reducer, x: Value, axis: Any, keep_dims: Any) -> Array:
    if not x.shape:
        refuse("a scalar has no axis to reduce")
    if plain(axis) is None:
        axes: Any = tuple(range(1, x.data.ndim))
    else:
        axes = _axis(x, axis)
    return reducer(x.data, axis=axes, keepdims=bool(plain(keep_dims)))


@member
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Value:  # noqa: A001, A002
    """Sum; small integers add up as int32, 16-bit floats as they are after each pairwise step."""
    x = numbers(input, "tl.sum")
    t = _sum_type(x.dtype) if plain(dtype) is None else element_type(dtype)
    x = Value(dtypes.convert(x.data, x.dtype, t), t)
    if t.rounds:
        return _tree(lambda a, b: t.round(a + b), x, axis, keep_dims)
    return Value(_reduce(lambda d, **k: np.sum(d, dtype=d.dtype, **k), x, axis, keep_dims), t)


def _sum_type(t: dtype) -> dtype:
    """Integers below 32 bits add up in 32."""
    if t.is_int() and t.primitive_bitwidth < 32:  # noqa: PLR2004
        return int32 if t.is_int_signed() else uint32
    return t


def _tree(combine: Callable[[Array, Array], Array], x: Value, axis: Any, keep_dims: Any) -> Value:
    """Reduce by halves, as a warp does; needed where each step rounds."""
    flat = ravel(x) if plain(axis) is None else x
    along = _axis(flat, 0 if plain(axis) is None else axis)
    data = np.moveaxis(flat.data, along, -1)
    while data.shape[-1] > 1:
        half = data.shape[-1] // 2
        data = combine(data[..., :half], data[..., half:])
    if not plain(keep_dims):
        return Value(data[..., 0], x.dtype)
    if plain(axis) is None:
        return Value(data.reshape(data.shape[0], *(1,) * len(x.shape)), x.dtype)
    return Value(np.moveaxis(data, -1, along), x.dtype)


def widened(x: Value) -> Value:
    """As tl.max and tl.min compare: 16-bit numbers in 32 bits."""
    t: dtype = x.dtype
    if t.primitive_bitwidth >= 32:  # noqa: PLR2004  comparisons happen in 32 bits
        return x
    wide = float32 if t.is_floating() else int32
    return Value(dtypes.convert(x.data, t, wide), wide)


def _extreme(
    reducer: _Reducer, ignoring_nan: _Reducer, position: _Reducer, worst: float
) -> Callable[..., Any]:
    def reduce_to_extreme(
        input: Any,  # noqa: A002  Triton's keyword
        axis: Any = None,
        return_indices: Any = False,
        return_indices_tie_break_left: Any = True,
        keep_dims: Any = False,
    ) -> Any:
        x = widened(numbers(input, "a reduction"))
        found = _reduce(reducer, x, axis, keep_dims)
        if x.dtype.is_floating() and np.isnan(found).any():
            found = _reduce(ignoring_nan, x, axis, keep_dims)
        if not flag(return_indices, "return_indices"):
            return Value(found, x.dtype)
        # a NaN is never the extreme
        data = np.where(np.isnan(x.data), worst, x.data) if x.dtype.is_floating() else x.data
        where = position(data, axis=_axis(x, axis), keepdims=bool(plain(keep_dims)))
        return Value(found, x.dtype), Value(where.astype(np.int32), int32)

    return reduce_to_extreme


max = _extreme(np.max, np.fmax.reduce, np.argmax, -np.inf)  # noqa: A001  tl.max
min = _extreme(np.min, np.fmin.reduce, np.argmin, np.inf)  # noqa: A001  tl.min
max.__name__, min.__name__ = "max", "min"
member(max)
member(min)


@member
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Value:  # noqa: A002
    """Index of the maximum, int32."""
    found: Value = max(input, axis, return_indices=True, keep_dims=keep_dims)[1]
    return found


@member
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Value:  # noqa: A002
    """Index of the minimum, int32."""
    found: Value = min(input, axis, return_indices=True, keep_dims=keep_dims)[1]
    return found


@member
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> Value:  # noqa: A002
    """Bitwise exclusive or."""
    x = integers(input, "tl.xor_sum")
    return Value(_reduce(np.bitwise_xor.reduce, x, axis, keep_dims), x.dtype)


@member
def reduce_or(input: Any, axis: Any, keep_dims: Any = False) -> Value:  # noqa: A002
    """Bitwise or."""
    x = integers(input, "tl.reduce_or")
    return Value(_reduce(np.bitwise_or.reduce, x, axis, keep_dims), x.dtype)


def _combine(function: Any, a: list[Value], b: list[Value]) -> list[Value]:
    out = function(*a, *b)
    return list(out) if isinstance(out, tuple) else [out]


def _moved_last(inputs: list[Value], axis: Any) -> tuple[list[Array], int]:
    along = _axis(inputs[0], axis)
    shape = np.broadcast_shapes(*(x.data.shape for x in inputs))
    return [np.moveaxis(np.broadcast_to(x.data, shape), along, -1) for x in inputs], along


@member
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:  # noqa: A002
    """Reduce one block or a tuple of blocks with the student's own function."""
    single = not isinstance(input, tuple | list)
    given = [numbers(x, "tl.reduce") for x in ((input,) if single else input)]
    combine = combiner(combine_fn, "tl.reduce")
    rank = len(given[0].shape)
    if plain(axis) is None:
        given, axis = [ravel(x) for x in given], 0
    data, along = _moved_last(given, axis)
    parts = [Value(d, x.dtype) for d, x in zip(data, given, strict=True)]
    while (n := parts[0].data.shape[-1]) > 1:
        halves = [
            [Value(p.data[..., s], p.dtype) for p in parts]
            for s in (slice(n // 2), slice(n // 2, n))
        ]
        parts = _combine(combine, halves[0], halves[1])
    ends = [p.data[..., 0] for p in parts]
    if plain(keep_dims):
        ends = [np.expand_dims(e, along) for e in ends]
        if len(given[0].shape) != rank:
            ends = [e.reshape(e.shape[0], *(1,) * rank) for e in ends]
    out = tuple(Value(e, p.dtype) for e, p in zip(ends, parts, strict=True))
    return out[0] if single else out


@member
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:  # noqa: A002
    """Inclusive scan with the student's own function."""
    single = not isinstance(input, tuple | list)
    given = [numbers(x, "tl.associative_scan") for x in ((input,) if single else input)]
    combine = combiner(combine_fn, "tl.associative_scan")
    data, along = _moved_last(given, axis)
    if plain(reverse):
        data = [d[..., ::-1] for d in data]
    step, n = 1, data[0].shape[-1]
    while step < n:
        earlier = [Value(d[..., :-step], x.dtype) for d, x in zip(data, given, strict=True)]
        later = [Value(d[..., step:], x.dtype) for d, x in zip(data, given, strict=True)]
        done = _combine(combine, earlier, later)
        data = [
            np.concatenate([d[..., :step], np.broadcast_to(p.data, later[0].data.shape)], axis=-1)
            for d, p in zip(data, done, strict=True)
        ]
        step *= 2
    if plain(reverse):
        data = [d[..., ::-1] for d in data]
    out = tuple(Value(np.moveaxis(d, -1, along), x.dtype) for d, x in zip(data, given, strict=True))
    return out[0] if single else out


def _accumulated(accumulate: np.ufunc, x: Value, t: dtype, axis: Any, reverse: Any) -> Value:
    along, data = _axis(x, axis), dtypes.convert(x.data, x.dtype, t)
    backwards = flag(reverse, "reverse")
    data = np.flip(data, along) if backwards else data
    data = accumulate.accumulate(data, axis=along, dtype=data.dtype)
    return result(np.flip(data, along) if backwards else data, t)


@member
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Value:  # noqa: A002
    """Sums of all elements so far; unlike tl.sum, of bfloat16 in float32."""
    x = numbers(input, "tl.cumsum")
    own = float32 if x.dtype is bfloat16 else _sum_type(x.dtype)
    t = own if plain(dtype) is None else element_type(dtype)
    return _accumulated(np.add, x, t, axis, reverse)


@member
def cumprod(input: Any, axis: Any = 0, reverse: Any = False) -> Value:  # noqa: A002
    """Products of all elements so far; small integers stay as they are, bfloat16 is float32."""
    x = numbers(input, "tl.cumprod")
    t = float32 if x.dtype is bfloat16 else x.dtype
    return _accumulated(np.multiply, x, t, axis, reverse)


@member
def gather(src: Any, index: Any, axis: Any) -> Value:
    """Pick elements along an axis."""
    x, i = value_of(src), value_of(index)
    if not i.dtype.is_int() or len(i.shape) != len(x.shape):
        refuse(f"tl.gather: the index has integers and as many axes as {x.shape}, not {i.shape}")
    n = np.broadcast_shapes(x.data.shape[:1], i.data.shape[:1])
    data = np.broadcast_to(x.data, n + x.shape)
    at = np.broadcast_to(i.data, n + i.shape)
    return Value(np.take_along_axis(data, at, axis=_axis(x, axis)), x.dtype)


@member
def histogram(input: Any, num_bins: Any, mask: Any = None) -> Value:  # noqa: A002
    """How often each of ``num_bins`` integers occurs, int32."""
    x, (bins,) = integers(input, "tl.histogram"), block_shape((num_bins,))
    if len(x.shape) != 1:
        refuse(f"tl.histogram counts along one axis, not in shape {x.shape}")
    n = x.data.shape[0]
    keep = np.ones(x.data.shape, np.bool_)
    if plain(mask) is not None:
        given = value_of(mask)
        if not given.dtype.is_bool():
            refuse(f"the mask of tl.histogram is a comparison, not {given.dtype}")
        m = given.data
        n = builtins.max(n, m.shape[0])
        keep = np.broadcast_to(m, (n, *x.shape))
    data = np.broadcast_to(x.data, (n, *x.shape))
    keep = np.broadcast_to(keep, data.shape)
    flat = (data + np.arange(n)[:, None] * bins)[keep]
    counted = np.bincount(flat, minlength=n * bins).reshape(n, bins)
    return Value(counted.astype(np.int32), int32)
