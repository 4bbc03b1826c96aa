"""Runs the programs of a launch in groups: splits them, queues those that wait, sees deadlocks."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from typing import Any
from unittest import mock

import numpy as np

from grader.simulator import advice, run
from grader.simulator.dtypes import Array
from grader.simulator.errors import (
    CompilationError,
    DeadlockError,
    UnsupportedError,
    source_line,
)
from grader.simulator.explaining import explained
from grader.simulator.launch_state import SPIN_LIMIT, LaunchState
from grader.simulator.log import Finding
from grader.simulator.memory import Buffer
from grader.simulator.run import Abandoned, Blocked, Place, Run, Split

Group = tuple[Array, "Counter[Place]"]
# turns for an atomic that may wait, each given to all programs in turn; in the end without limit,
# for one that only adds 0 to a counter: what waits in vain like that ends with the case's time
_PATIENCE_STEPS = (SPIN_LIMIT, 4 * SPIN_LIMIT, 16 * SPIN_LIMIT, sys.maxsize)
# a repeated run may take so many times the steps of the first, and some more
_PATIENCE, _MORE = 4, 200
# of another order so many passes are enough: a lock takes two a program, and all are alike
_OTHER_PASSES = 64


def run_all(
    function: Callable[..., Any],
    cooked: dict[str, Any],
    state: LaunchState,
    coordinates: Array,
    *,
    backwards: bool = False,
) -> None:
    """Run all programs: those first whose condition was false, or ``backwards``, true.

    Raises:
        DeadlockError: If all that are left wait.
    """
    n_programs = coordinates.shape[1]
    queue: deque[Group] = deque([(np.arange(n_programs, dtype=np.int32), Counter())])
    chunk, n_blocked = n_programs, 0
    # extendleft reverses
    in_turn = list if backwards else reversed
    with np.errstate(all="ignore"):
        while queue:
            ids, lineage = queue.popleft()
            if len(ids) > chunk:
                parts = [ids[i : i + chunk] for i in range(0, len(ids), chunk)]
                queue.extendleft((part, lineage) for part in in_turn(parts))
                continue
            attempt = Run(state, ids, coordinates, lineage)
            try:
                _run_once(function, cooked, attempt)
                n_blocked = 0
            except Split as split:
                if split.memory:
                    chunk = min(chunk, max(len(g) for g in split.groups))
                queue.extendleft((ids[g], attempt.lineage) for g in in_turn(split.groups))
            except Blocked as blocked:
                queue.append((ids, lineage))
                n_blocked += 1
                if n_blocked > len(queue) and state.patience < _PATIENCE_STEPS[-1]:
                    state.patience = next(n for n in _PATIENCE_STEPS if n > state.patience)
                    n_blocked = 0
                elif n_blocked > len(queue):
                    _deadlock(state, attempt, blocked, sum(len(g[0]) for g in queue))


def _run_once(function: Callable[..., Any], cooked: dict[str, Any], attempt: Run) -> None:
    attempt.launch.n_passes += 1
    run.set_current(attempt)
    try:
        attempt.step()
        _check_returned(attempt.launch.kernel, function(**cooked))
        attempt.commit()
    except (Split, Blocked, Abandoned):
        attempt.roll_back()
        raise
    except Exception as error:
        attempt.keep_log()
        meaning = explained(error)
        if meaning is error:
            raise
        # what it means says all, and where; the kernel's own frames stay
        raise meaning.with_traceback(error.__traceback__) from None
    finally:
        run.set_current(None)


def _check_returned(kernel: str, returned: object) -> None:
    if returned is not None:
        raise CompilationError(f"{kernel} returns a value; a kernel stores its results")


def _deadlock(state: LaunchState, attempt: Run, blocked: Blocked, n_waiting: int) -> None:
    file, line = blocked.place
    x, y, z = (int(c) for c in attempt.coordinates[:, 0])
    text = f"{n_waiting} programs wait here for something that no other program does"
    state.findings.append(
        Finding(
            "deadlock",
            state.kernel,
            file,
            line,
            source_line(file, line),
            (x, y, z),
            "",
            None,
            text,
            1,
            advice.DEADLOCK,
        )
    )
    raise DeadlockError(
        f"{file}:{line} in {state.kernel}: {text}\n    {source_line(file, line)}\n{advice.DEADLOCK}"
    ) from None


def restarted(
    state: LaunchState, buffers: Iterable[Buffer], wanted: frozenset[int] = frozenset()
) -> LaunchState:
    """The launch before its first pass, with these buffers under suspicion, too."""
    for buffer in buffers:
        buffer.restore()
    tracked = state.tracked | wanted
    return LaunchState(
        state.kernel,
        state.grid,
        checked=True,
        definition=state.definition,
        tracked=tracked,
        n_passes=state.n_passes,
        exact_products=state.exact_products,
        accesses=None if state.accesses is None else [],
    )


def budget(state: LaunchState) -> int:
    """Steps that another run of a finished launch may take."""
    return _PATIENCE * state.n_steps + _MORE


def run_again(
    function: Callable[[LaunchState], Callable[..., Any]],
    cooked: dict[str, Any],
    state: LaunchState,
    coordinates: Array,
    *,
    backwards: bool = False,
) -> bool:
    """Run all programs of a launch that ended well before; return whether it does again.

    Nothing is printed, and no breakpoint opens.
    """
    state.is_repeat = True
    with mock.patch.object(sys, "breakpointhook", mock.Mock(return_value=None)):
        try:
            run_all(function(state), cooked, state, coordinates, backwards=backwards)
        # what went well once may meet other values now; that says nothing of the kernel
        except (Abandoned, DeadlockError, CompilationError, UnsupportedError):
            return False
    return True


def in_other_order(
    function: Callable[[LaunchState], Callable[..., Any]],
    cooked: dict[str, Any],
    state: LaunchState,
    buffers: Collection[Buffer],
    coordinates: Array,
) -> LaunchState:
    """Run a finished launch once more, backwards; its memory stays as it is now.

    What atomics order depends on who came first: a program that reads after an atomic whose answer
    it ignores may have come last by chance. A part of such a run shows as much as the whole of it.
    """
    kept = [buffer.contents() for buffer in buffers]
    other = restarted(state, buffers)
    other.accesses = None
    other.budget = _MORE + _OTHER_PASSES * state.n_steps // state.n_passes
    try:
        run_again(function, cooked, other, coordinates, backwards=True)
    finally:
        for buffer, contents in zip(buffers, kept, strict=True):
            buffer.put_back(contents)
    return other
