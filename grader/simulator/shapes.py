"""Views, joins and orders of the axes of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator import advice, run
from grader.simulator import index as formulas
from grader.simulator.arguments import axis_of
from grader.simulator.constants import plain
from grader.simulator.creation import block_shape, varargs
from grader.simulator.dtypes import Array
from grader.simulator.errors import refuse
from grader.simulator.index import Index
from grader.simulator.values import Value, align, formula_value, member, value_of

# the names that kernels know as tl.<name>
LANGUAGE = (
    "expand_dims",
    "broadcast_to",
    "broadcast",
    "reshape",
    "view",
    "ravel",
    "trans",
    "permute",
    "cat",
    "join",
    "split",
    "interleave",
    "squeeze",
    "unsqueeze",
)


@member
def expand_dims(input: Any, axis: Any) -> Value:  # noqa: A002  Triton's keyword
    """Insert axes of size 1."""
    given, axes = value_of(input), plain(axis)
    places = list(axes) if isinstance(axes, tuple | list) else [axes]
    n_axes = len(given.shape) + len(places)
    for a in places:
        if not isinstance(a, int) or not -n_axes <= a < n_axes:
            refuse(f"axis {a!r} is out of range for a block of shape {given.shape}")
    if len({a % n_axes for a in places}) < len(places):
        refuse(f"axes {tuple(places)}: each new axis needs a place of its own")
    for at in sorted(a % n_axes for a in places):
        rank = len(given.shape)
        given = given.expanded([slice(None)] * at + [None] + [slice(None)] * (rank - at))
    return given


@member
def broadcast_to(input: Any, *shape: Any) -> Value:  # noqa: A002  Triton's keyword
    """Repeat axes of size 1."""
    if not isinstance(plain(input), Value):
        refuse("tl.broadcast_to takes a value of the kernel; of a number, use tl.full")
    given, sizes = value_of(input), varargs(shape)
    if type(given.formula) is Index:
        # a zero of that shape
        shaped = Index((1, *sizes), 0, (0,) * (len(sizes) + 1), None, 0, 0)
        spread = formulas.plus(given.formula, shaped)
        if spread is not None and spread.shape[1:] == sizes:
            return formula_value(spread, given.dtype, given.argument)
    if given.shape and len(given.shape) != len(sizes):
        refuse(
            f"a block of shape {given.shape} cannot be broadcast to {sizes}, which has another number "
            "of axes: insert them with x[None, :] or x[:, None]"
        )
    data, _ = align(given.data, np.empty((1, *sizes), np.bool_))
    if any(m not in {1, n} for m, n in zip(data.shape[1:], sizes, strict=True)):
        refuse(f"a block of shape {given.shape} cannot be broadcast to {sizes}")
    return Value(np.broadcast_to(data, data.shape[:1] + sizes), given.dtype, given.argument)


def broadcast(input: Any, other: Any) -> tuple[Value, Value]:  # noqa: A002  Triton's keyword
    """Both in their common shape."""
    if not isinstance(plain(input), Value) or not isinstance(plain(other), Value):
        refuse("tl.broadcast, tl.join and tl.interleave take values of the kernel: see tl.full")
    a, b = value_of(input), value_of(other)
    shape = np.broadcast_shapes(*(x.shape[1:] for x in align(a.data, b.data)))
    return broadcast_to(a, shape), broadcast_to(b, shape)


@member
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> Value:  # noqa: A002
    """The same elements, in row-major order, in another shape."""
    given, sizes = value_of(input), varargs(shape)
    if np.prod(sizes, dtype=int) != given.numel:
        refuse(f"a block of shape {given.shape} cannot be reshaped to {sizes}")
    if plain(can_reorder):
        _note_order("can_reorder=True lets a GPU")
    return Value(given.data.reshape(given.data.shape[:1] + sizes), given.dtype, given.argument)


@member
def view(input: Any, *shape: Any) -> Value:  # noqa: A002  Triton's keyword
    """The same elements in another shape; on a GPU, in another order perhaps."""
    _note_order("tl.view lets a GPU")
    return reshape(input, *shape)


def _note_order(what: str) -> None:
    text = f"{what} reorder the elements, which the simulator does not"
    run.current().find("note", 0, text, advice=advice.REORDERED)


@member
def ravel(x: Any, can_reorder: Any = False) -> Value:
    """The same elements in one axis."""
    if not value_of(x).shape:
        refuse("tl.ravel takes a block, and this is a scalar: it has no axis")
    return reshape(x, value_of(x).numel, can_reorder=can_reorder)


@member
def trans(input: Any, *dims: Any) -> Value:  # noqa: A002  Triton's keyword
    """Permute axes; without ``dims`` swap the last two."""
    given = value_of(input)
    if not dims:
        order = list(range(len(given.shape) + 1))
        if len(order) <= 2:  # noqa: PLR2004  the programs, and one axis
            refuse(f"tl.trans needs two axes, not shape {given.shape}")
        return given.permuted([*order[:-2], order[-1], order[-2]])
    return permute(given, *dims)


@member
def permute(input: Any, *dims: Any) -> Value:  # noqa: A002  Triton's keyword
    """Reorder axes."""
    given = value_of(input)
    order = plain(dims[0]) if len(dims) == 1 else plain(dims)
    order = list(order) if isinstance(order, tuple | list) else [order]
    if not all(isinstance(d, int) for d in order) or sorted(order) != [*range(len(given.shape))]:
        refuse(f"{tuple(order)} is no order of the axes of shape {given.shape}")
    return given.permuted([0, *(d + 1 for d in order)])


def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> Value:  # noqa: A002
    """Concatenate two blocks along an axis; with ``can_reorder``, in any order."""
    first, second = value_of(input), value_of(other)
    rank = len(first.shape)
    if first.dtype is not second.dtype:
        refuse(f"tl.cat takes blocks of one type, not {first.dtype} and {second.dtype}")
    if rank != len(second.shape):
        refuse(f"tl.cat: shapes {first.shape} and {second.shape} do not join")
    axis = axis_of(first, dim)
    a, b = _same_programs(first, second)
    if plain(can_reorder):
        if rank != 1:
            refuse("tl.cat with can_reorder=True takes blocks of one axis")
        block_shape((first.shape[0] + second.shape[0],))
        _note_order("can_reorder=True lets a GPU")
    elif first.shape != second.shape:
        refuse(f"tl.cat takes blocks of one shape, not {first.shape} and {second.shape}")
    return Value(np.concatenate([a, b], axis=axis + 1), first.dtype)


def join(a: Any, b: Any) -> Value:
    """Stack two blocks along a new last axis."""
    x, y = broadcast(a, b)
    if x.dtype != y.dtype:
        refuse(f"tl.join and tl.interleave take values of one type, not {x.dtype} and {y.dtype}")
    return Value(np.stack(_same_programs(x, y), axis=-1), x.dtype)


@member
def split(a: Any) -> tuple[Value, Value]:
    """Undo join."""
    given = value_of(a)
    if not given.shape or given.shape[-1] != 2:  # noqa: PLR2004  two halves
        refuse(f"tl.split needs a last axis of 2, not shape {given.shape}")
    return Value(given.data[..., 0], given.dtype), Value(given.data[..., 1], given.dtype)


def interleave(a: Any, b: Any) -> Value:
    """Elements of a and b in turn along the last axis."""
    joined = join(a, b)
    if len(joined.shape) == 1:
        return joined
    shape = (*joined.shape[:-2], 2 * joined.shape[-2])
    return reshape(joined, shape)


def _same_programs(a: Value, b: Value) -> list[Array]:
    n = max(a.data.shape[0], b.data.shape[0])
    return [np.broadcast_to(x.data, (n, *x.shape)) for x in (a, b)]


@member
def squeeze(x: Any, dim: Any) -> Value:
    """Remove an axis of size 1; -1, which Triton's own slices get wrong, is refused as there."""
    given, axis = value_of(x), _place(x, dim, "tl.squeeze")
    shape = given.shape
    if not -len(shape) <= axis < len(shape) or shape[axis] != 1:
        refuse(f"tl.squeeze: axis {axis} of shape {shape} is not of size 1")
    if axis == -1:
        refuse(f"tl.squeeze fails to compile with dim=-1: write dim={len(shape) - 1}")
    return reshape(given, [*shape[:axis], *shape[axis + 1 :]])


@member
def unsqueeze(x: Any, dim: Any) -> Value:
    """Insert an axis of size 1; from behind it counts as list.insert does, not as tl.expand_dims."""
    given, axis = value_of(x), _place(x, dim, "tl.unsqueeze")
    return reshape(given, [*given.shape[:axis], 1, *given.shape[axis:]])


def _place(x: Any, dim: Any, function: str) -> int:
    if not value_of(x).shape:
        refuse(f"{function} takes a block, and this is a scalar")
    axis = plain(dim)
    if not isinstance(axis, int):
        refuse(f"{function} takes one axis, not {axis!r}")
    return int(axis)
