"""Races between programs: one writes what another reads or writes, and nothing orders them.

Works on the log of all accesses to a buffer under suspicion, not on what they did, so without
atomics it does not depend on the order in which programs happened to run. Two atomics never race.
Within one program nothing races here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from grader.simulator import advice
from grader.simulator.dtypes import Array
from grader.simulator.errors import source_line
from grader.simulator.launch_state import LaunchState, Touch
from grader.simulator.log import Finding, FindingKind
from grader.simulator.ordering import Order

_KINDS = ("read", "write", "atomic")
_READ, _WRITE, _ATOMIC = range(3)
_CONFLICTS = {_READ: (_WRITE, _ATOMIC), _WRITE: (_READ, _WRITE, _ATOMIC), _ATOMIC: (_READ, _WRITE)}


@dataclass(frozen=True)
class _History:
    """All accesses to one buffer, sorted by element and then time; arrays of one length."""

    element: Array
    program: Array
    kind: Array
    clock: Array
    touch: Array  # which Touch
    value: Array


def find_races(launch: LaunchState, coordinates: Array) -> list[Finding]:
    """Races on all tracked buffers of a finished launch, one finding per pair of lines.

    Args:
        launch: With ``touches`` and ``syncs`` of all programs.
        coordinates: Shape (3, programs), the program ids.
    """
    findings: list[Finding] = []
    order = Order(launch.syncs)
    for touches in launch.touches.values():
        history = _history(touches, _shared_elements(touches))
        first, second = _conflicts(history)
        if order.exists:
            when = np.stack([history.program, history.clock], axis=1)
            unordered = order.missing(when[first], when[second])
            first, second = first[unordered], second[unordered]
        if first.size:
            pairs = _Pairs(launch.kernel, touches, history, coordinates, order.exists)
            found = _report(pairs, first, second)
            # beside a race that writes of equal values are harmless is no use
            raced = [finding for finding in found if finding.kind == "race"]
            findings += raced or found
    return findings


def _shared_elements(touches: list[Touch]) -> Array:
    """Per element, whether two programs touch it; all others cannot race, and need no memory."""
    size = max(int(t.element.max(initial=-1)) for t in touches) + 1
    owner = np.full(size, -1, np.int32)
    shared = np.zeros(size, np.bool_)
    for touch in touches:
        before = owner[touch.element]
        owner[touch.element] = touch.program
        differs = ((before >= 0) & (before != touch.program)) | (
            owner[touch.element] != touch.program
        )
        shared[touch.element[differs]] = True
    return shared


def _history(touches: list[Touch], shared: Array) -> _History:
    kept = [shared[t.element] for t in touches]
    element = np.concatenate([t.element[k] for t, k in zip(touches, kept, strict=True)])
    n = [int(np.count_nonzero(k)) for k in kept]
    clock = np.repeat([t.clock for t in touches], n)
    order = np.lexsort((clock, element))
    return _History(
        element[order],
        np.concatenate([t.program[k] for t, k in zip(touches, kept, strict=True)])[order],
        np.repeat([_KINDS.index(t.kind) for t in touches], n)[order],
        clock[order],
        np.repeat(np.arange(len(touches)), n)[order],
        np.concatenate([t.values[k] for t, k in zip(touches, kept, strict=True)])[order],
    )


def _conflicts(history: _History) -> tuple[Array, Array]:
    """Pairs of positions, earlier first: each access with the nearest conflicting ones.

    Nearest of each kind on either side is enough: whatever lies further away conflicts with the
    nearest one itself, or is ordered through it.
    """
    n = history.element.size
    if not n:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    position = np.arange(n)
    new_element = np.ones(n, np.bool_)
    new_element[1:] = history.element[1:] != history.element[:-1]
    start = np.maximum.accumulate(np.where(new_element, position, 0))
    firsts, seconds = [], []
    for kind, others in _CONFLICTS.items():
        mine = np.flatnonzero(history.kind == kind)
        for other in others:
            before = _last_before(history.kind == other)[mine]
            keep = before >= start[mine]
            firsts.append(before[keep])
            seconds.append(mine[keep])
            # the same pairs from the other side: the next access of kind `other`
            after = _next_after(history.kind == other)[mine]
            inside = after < n
            same = np.zeros(mine.size, np.bool_)
            same[inside] = start[after[inside]] == start[mine[inside]]
            firsts.append(mine[same])
            seconds.append(after[same])
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    differ = history.program[first] != history.program[second]
    # as one number: sorting pairs is ten times slower
    both = np.sort(first[differ] * n + second[differ])
    both = both[np.r_[True, both[1:] != both[:-1]]] if both.size else both
    return both // n, both % n


def _last_before(wanted: Array) -> Array:
    """Per position, the last position before it where ``wanted``; -1 if there is none."""
    at = np.maximum.accumulate(np.where(wanted, np.arange(wanted.size), -1))
    return np.concatenate([[-1], at[:-1]])


def _next_after(wanted: Array) -> Array:
    """Per position, the first position after it where ``wanted``; the size if there is none."""
    n = wanted.size
    at = np.minimum.accumulate(np.where(wanted, np.arange(n), n)[::-1])[::-1]
    return np.concatenate([at[1:], [n]])


def alike(one: Array, two: Array) -> Array:
    """Where two arrays hold the same value; NaN is like NaN."""
    same: Array = (one == two) | (np.isnan(one) & np.isnan(two))
    return same


@dataclass(frozen=True)
class _Pairs:
    """What pairs of positions in a history stand for."""

    kernel: str
    touches: list[Touch]
    history: _History
    coordinates: Array
    has_order: bool  # some integer atomic is there


def _report(pairs: _Pairs, first: Array, second: Array) -> list[Finding]:
    touches, history = pairs.touches, pairs.history
    kinds = history.kind[first], history.kind[second]
    same = alike(history.value[first], history.value[second])
    equal = (kinds[0] == _WRITE) & (kinds[1] == _WRITE) & same
    pair = history.touch[first] * len(touches) + history.touch[second]
    findings = []
    for same_value in (False, True):
        chosen = np.flatnonzero(equal == same_value)
        lines: dict[tuple[str, ...], list[Array]] = defaultdict(list)
        for code in np.unique(pair[chosen]).tolist():
            one, two = (touches[k] for k in divmod(code, len(touches)))
            places = sorted([f"{one.kind} {one.place}", f"{two.kind} {two.place}"])
            lines[tuple(places)].append(chosen[pair[chosen] == code])
        for groups in lines.values():
            k = int(groups[0][0])
            kind: FindingKind = "note" if same_value else "race"
            grains = np.unique(history.element[first[np.concatenate(groups)]])
            n = len(np.unique(grains // touches[int(history.touch[first[k]])].n_grains))
            findings.append(_finding(kind, pairs, int(first[k]), int(second[k]), n))
    return findings


def _finding(kind: FindingKind, pairs: _Pairs, one: int, two: int, n: int) -> Finding:
    touches, history = pairs.touches, pairs.history
    earlier, later = touches[int(history.touch[one])], touches[int(history.touch[two])]
    program = _program(pairs.coordinates, int(history.program[two]))
    other = _program(pairs.coordinates, int(history.program[one]))
    index = later.argument.index(int(history.element[two]) // later.n_grains)
    (file, line), (_, other_line) = later.place, earlier.place
    names = later.argument.name, earlier.argument.name
    through = "" if names[0] == names[1] else f" through {names[1]}"
    text = (
        f"program {program} {_verb(later.kind)} {names[0]} at index {index}, and program {other} "
        f"{_verb(earlier.kind)} the same element{through} in line {other_line}; nothing orders them"
    )
    if kind == "note":
        text += ", but both write the same value"
        what_to_do = advice.SAME_VALUE
    else:
        what_to_do = advice.race({earlier.kind, later.kind}, has_order=pairs.has_order)
    return Finding(
        kind,
        pairs.kernel,
        file,
        line,
        source_line(file, line),
        program,
        later.argument.name,
        index,
        text,
        n,
        what_to_do,
    )


def _program(coordinates: Array, serial: int) -> tuple[int, int, int]:
    x, y, z = (int(c) for c in coordinates[:, serial])
    return x, y, z


def _verb(kind: str) -> str:
    return {"read": "reads", "write": "writes", "atomic": "updates atomically"}[kind]
