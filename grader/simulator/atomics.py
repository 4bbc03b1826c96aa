"""Atomic operations: all programs at once, in program order where several hit one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grader.simulator import dtypes
from grader.simulator.access import check_written
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, dtype, pointer_type
from grader.simulator.errors import UnsupportedError, refuse
from grader.simulator.lanes import Access
from grader.simulator.run import here
from grader.simulator.values import Value, value_of

# the names that kernels know as tl.<name>
LANGUAGE = (
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "atomic_xchg",
    "atomic_cas",
)

_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_SEMANTICS = {None, "acquire", "release", "acq_rel", "relaxed"}
_SCOPES = {None, "gpu", "cta", "sys"}


def atomic(
    operation: str, pointer: Any, values: tuple[Any, ...], mask: Any = None, sem: Any = None
) -> Value:
    """Apply ``operation`` ("cas": values are compare and new) and return the old values."""
    access = _access(operation, pointer, values, mask, plain(sem))
    access.each_program()
    access.drop_outside()
    access.count()
    buffer, t = access.buffer, access.buffer.dtype
    buffer.had_atomics = True
    # an exchange may well be the first to write
    if buffer.written is not None and operation != "xchg" and access.elements.size:
        check_written(access, buffer.written)
    buffer.begin_write(access.run.launch)
    element, program = access.elements, access.programs
    access.track("atomic")
    if t.is_int() and plain(sem) != "relaxed":
        clock = access.run.tick(element.size)
        access.run.synchronise(buffer.address, element * buffer.n_grains, program, clock)
    given = [access.flat(v) for v in access.values]
    access.run.save(buffer.raw, element)
    if operation == "add" and not t.is_int():
        access.run.launch.float_atomics.setdefault(access.argument.name, here())
    if operation == "add" and not t.rounds:
        old = _add(buffer.raw, element, given[0])
    else:
        old = _one_by_one(operation, buffer.raw, element, given, t)
    if buffer.written is not None:
        access.run.save(buffer.written, element)
        buffer.written[element] = True
    only_waits = operation in {"cas", "xchg"}
    # an integer read by adding 0 to it is waited for, too
    may_wait = only_waits or (t.is_int() and access.index.ndim == 1)
    if may_wait and (old == t.decode(buffer.raw[element])).all():
        access.run.spin(element, only_waits=only_waits)
    return Value(_scatter(access, old, t), t)


def _access(
    operation: str, pointer: Any, values: tuple[Any, ...], mask: Any, sem: str | None
) -> Access:
    if sem not in _SEMANTICS:
        refuse(f"sem={sem!r}: use 'acquire', 'release', 'acq_rel' or 'relaxed'")
    if not isinstance(pointer, Value) or not isinstance(pointer.dtype, pointer_type):
        return Access(f"atomic_{operation}", pointer, mask)  # refuses, with the reason
    t = pointer.dtype.element_ty
    if operation in {"and", "or", "xor"} and not t.is_int():
        raise UnsupportedError(f"the simulator's tl.atomic_{operation} takes integers, not {t}")
    if t.is_bool() or (t.is_int() and t.itemsize < 4):  # noqa: PLR2004  bytes of int32
        refuse(f"tl.atomic_{operation} does not take {t}; use int32 or int64")
    if operation in {"max", "min"} and t in {dtypes.float16, dtypes.bfloat16}:
        refuse(f"tl.atomic_{operation} does not take {t}; use float32")
    if operation == "cas":
        _check_compared(pointer, t, values)
    arrays = [_converted(value_of(v), t) for v in values]
    return Access(f"atomic_{operation}", pointer, mask, *arrays)


def _check_compared(pointer: Value, t: dtype, values: tuple[Any, ...]) -> None:
    """Alone of all atomics, tl.atomic_cas converts and repeats nothing."""
    for name, given in zip(("cmp", "val"), map(value_of, values), strict=True):
        if given.dtype is not t or given.shape != pointer.shape:
            refuse(
                f"tl.atomic_cas: {name} is {given.dtype} of shape {given.shape}, the pointer to {t} of "
                f"shape {pointer.shape}; make them the same, with .to() and tl.full"
            )


def _converted(value: Value, t: dtype) -> Array:
    return dtypes.convert(value.data, value.dtype, t)


def _add(raw: Array, element: Array, given: Array) -> Array:
    """Add in lane order. The old value of a lane is what earlier lanes left."""
    ranks = _ranks(element)
    if not ranks.any():
        old = raw[element]
        raw[element] = old + given
        return old
    before = raw[element]
    np.add.at(raw, element, given.astype(raw.dtype, copy=False))
    return before + _sums_before(element, given.astype(before.dtype, copy=False))


def _sums_before(element: Array, given: Array) -> Array:
    """Per lane, the sum over earlier lanes of the same element."""
    order = np.argsort(element, kind="stable")
    ordered, values = element[order], given[order]
    total = np.cumsum(values) - values
    starts = np.r_[True, ordered[1:] != ordered[:-1]]
    base = np.maximum.accumulate(np.where(starts, np.arange(ordered.size), 0))
    out = np.empty_like(total)
    out[order] = total - total[base]
    return out


def _ranks(element: Array) -> Array:
    """Per lane, how many earlier lanes hit the same element."""
    order = np.argsort(element, kind="stable")
    ordered = element[order]
    position = np.arange(ordered.size)
    starts = np.ones(ordered.size, np.bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty(ordered.size, np.int64)
    ranks[order] = position - np.maximum.accumulate(np.where(starts, position, 0))
    return ranks


def _one_by_one(operation: str, raw: Array, element: Array, given: list[Array], t: dtype) -> Array:
    """Lanes of the same rank touch different elements, so each rank is one vector operation."""
    ranks = _ranks(element)
    if operation == "cas" and all((g == g[:1]).all() for g in given):
        # once the first lane has had its turn, all others of an element find and leave the same
        ranks = np.minimum(ranks, 1)
    old = np.empty(element.size, t.compute)
    for rank in range(int(ranks.max(initial=-1)) + 1):
        lanes = np.flatnonzero(ranks == rank)
        now = t.decode(raw[element[lanes]])
        old[lanes] = now
        raw[element[lanes]] = _apply(operation, now, [g[lanes] for g in given], t).astype(raw.dtype)
    return old


def _apply(operation: str, now: Array, given: list[Array], t: dtype) -> Array:
    if operation == "cas":
        compare, new = given
        return np.where(now == compare, new, now)
    if operation == "xchg":
        return given[0]
    changed: Array = _UFUNCS[operation](now, given[0])
    return t.round(changed) if t.rounds else changed


def _scatter(access: Access, old: Array, t: dtype) -> Array:
    if access.mask is None:
        return old.reshape(access.index.shape)
    out = np.zeros(access.index.shape, t.compute)
    out[access.mask] = old
    return out


def _of_one_value(operation: str) -> Callable[..., Value]:
    def apply(
        pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
    ) -> Value:
        _check_scope(scope)
        return atomic(operation, pointer, (val,), mask, sem)

    apply.__name__ = f"atomic_{operation}"
    return apply


atomic_add, atomic_max, atomic_min = map(_of_one_value, ("add", "max", "min"))
atomic_and, atomic_or, atomic_xor = map(_of_one_value, ("and", "or", "xor"))
atomic_xchg = _of_one_value("xchg")


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Value:
    """Store ``val`` where ``cmp`` is found; gives what was there."""
    _check_scope(scope)
    return atomic("cas", pointer, (cmp, val), None, sem)


def _check_scope(scope: Any) -> None:
    if plain(scope) not in _SCOPES:
        refuse(f"scope={plain(scope)!r}: use 'gpu', 'cta' or 'sys'")
