"""One kernel launch: all programs of the grid in one pass, split and rerun where they disagree."""

from __future__ import annotations

import functools
import operator
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from grader.simulator import (
    advice,
    cache,
    constants,
    dtypes,
    host_marks,
    index,
    log,
    races,
    run,
    single_program,
)
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, dtype, pointer_type
from grader.simulator.errors import CompilationError, DeadlockError, explained, source_line
from grader.simulator.log import ArgumentTraffic, Finding, Launch, Loop, is_recording
from grader.simulator.memory import Argument, Buffer, declared_type
from grader.simulator.run import Blocked, LaunchState, Place, Run, Split
from grader.simulator.specialisation import Specialisation, specialisation
from grader.simulator.values import Value, formula_value

Group = tuple[Array, "Counter[Place]"]
# launching more than this along y or z fails on every NVIDIA GPU (compute capability table)
_MAX_GRID = (2**31 - 1, 65535, 65535)
# per kernel and argument names, which arguments needed full tracking the last time
_known_suspects: dict[tuple[Any, tuple[str, ...]], frozenset[str]] = {}


def grid_of(grid: Any, arguments: Mapping[str, Any]) -> tuple[int, int, int]:
    """The grid as three sizes.

    Raises:
        ValueError: If it is none.
    """
    given = plain(grid(arguments)) if callable(grid) else plain(grid)
    sizes = tuple(given) if isinstance(given, tuple | list) else (given,)
    try:
        sizes = tuple(operator.index(plain(n)) for n in sizes)
    except TypeError:
        raise ValueError(f"the grid must be one to three integers, not {given!r}") from None
    if not 1 <= len(sizes) <= len(_MAX_GRID):
        raise ValueError(f"the grid must be one to three integers, not {given!r}")
    sizes += (1,) * (3 - len(sizes))
    for n, limit in zip(sizes, _MAX_GRID, strict=True):
        if not 0 <= n <= limit:
            raise ValueError(f"grid {sizes}: each size must lie in 0..{limit} (CUDA's limit)")
    x, y, z = sizes
    return x, y, z


def launch(
    key: Any,
    name: str,
    definition: tuple[str, int],
    function: Callable[[LaunchState], Callable[..., Any]],
    arguments: Mapping[str, Any],
    constants: frozenset[str],
    grid: tuple[int, int, int],
    options: Mapping[str, Any],
) -> None:
    """Run a kernel for all programs of a grid and hand what was seen to the open logs.

    Args:
        key: What identifies the kernel between launches.
        name: For messages.
        definition: File and line of the kernel.
        function: Makes the Python function to run.
        arguments: By name, as given on the host.
        constants: Names of the arguments that are compile-time constants.
        grid: Programs along x, y, z.
        options: For the compiler: num_warps, num_stages, ...
    """
    with torch._C.DisableTorchFunction():  # noqa: SLF001 - student modes end at the kernel
        buffers: dict[tuple[int, torch.dtype], Buffer] = {}
        windows: list[Argument] = []
        cooked = {
            k: _cook(k, v, buffers, windows, constant=k in constants) for k, v in arguments.items()
        }
        state = LaunchState(name, grid, is_recording(), definition)
        state.accesses = None if log.cache_to_model() is None else []
        compiled = None
        if state.checked and not dtypes.is_lifted():
            compiled = specialisation(name, definition, arguments, constants, options)
        coordinates = single_program.selected(name, grid, _coordinates(grid))
        n_programs = coordinates.shape[1]
        names = tuple(w.name for w in windows)
        suspects = _known_suspects.get((key, names), frozenset())
        state.tracked = frozenset(w.buffer.address for w in windows if w.name in suspects)
        try:
            while n_programs:
                _run_all(function(state), cooked, state, coordinates)
                wanted = _suspicious(state, buffers.values())
                # one program alone cannot race
                if n_programs == 1 or wanted <= state.tracked:
                    break
                # run again from the start, now logging every access to what looks like a race
                state = _restarted(state, buffers.values(), wanted)
                _known_suspects[key, names] = frozenset(
                    w.name for w in windows if w.buffer.address in state.tracked
                )
            if state.tracked:
                state.findings += races.find_races(state, coordinates)
        finally:
            _mark_written(buffers.values(), state)
            _publish(state, n_programs, windows, compiled)


@functools.lru_cache(maxsize=8)
def _coordinates(grid: tuple[int, int, int]) -> Array:
    """Program ids, shape (3, programs), x fastest."""
    serial = np.arange(grid[0] * grid[1] * grid[2], dtype=np.int64)
    if not serial.size:
        return np.zeros((3, 0), np.int32)
    x, y, _ = grid
    made = np.stack([serial % x, serial // x % y, serial // (x * y)]).astype(np.int32)
    made.flags.writeable = False
    return made


def _cook(
    name: str,
    given: Any,
    buffers: dict[tuple[int, torch.dtype], Buffer],
    windows: list[Argument],
    *,
    constant: bool,
) -> Any:
    """A host argument as the kernel sees it."""
    if isinstance(given, torch.Tensor):
        if constant:
            raise TypeError(f"argument {name} is a tl.constexpr: a tensor cannot be one")
        host_marks.check_device(name, given)
        address = given.untyped_storage().data_ptr()
        key = (address, given.dtype)
        if key not in buffers:
            same = [b.number for b in buffers.values() if b.address == address]
            buffers[key] = Buffer(given, declared_type(given), same[0] if same else len(buffers))
        window = Argument(name, given, buffers[key])
        windows.append(window)
        return formula_value(index.constant(window.base), pointer_type(window.buffer.dtype), window)
    if constant or given is None or isinstance(given, str | dtype):
        return constants.constant(given)
    if isinstance(given, tuple | list):
        return tuple(
            _cook(f"{name}[{i}]", item, buffers, windows, constant=constant)
            for i, item in enumerate(given)
        )
    if type(given) is int:
        return formula_value(index.constant(given), dtypes.scalar_type(given))
    if isinstance(given, bool | int | float | np.number):
        t = dtypes.float32 if isinstance(given, float) else dtypes.scalar_type(given)
        return Value(np.array([given], t.compute), t)
    return plain(given)


def _run_all(
    function: Callable[..., Any], cooked: dict[str, Any], state: LaunchState, coordinates: Array
) -> None:
    n_programs = coordinates.shape[1]
    queue: deque[Group] = deque([(np.arange(n_programs, dtype=np.int32), Counter())])
    chunk, n_blocked = n_programs, 0
    with np.errstate(all="ignore"):
        while queue:
            ids, lineage = queue.popleft()
            if len(ids) > chunk:
                parts = [ids[i : i + chunk] for i in range(0, len(ids), chunk)]
                queue.extendleft((part, lineage) for part in reversed(parts))
                continue
            attempt = Run(state, ids, coordinates, lineage)
            try:
                _run_once(function, cooked, attempt)
                n_blocked = 0
            except Split as split:
                if split.memory:
                    chunk = min(chunk, max(len(g) for g in split.groups))
                queue.extendleft((ids[g], attempt.lineage) for g in reversed(split.groups))
            except Blocked as blocked:
                queue.append((ids, lineage))
                n_blocked += 1
                if n_blocked > len(queue):
                    _deadlock(state, attempt, blocked, sum(len(g[0]) for g in queue))


def _run_once(function: Callable[..., Any], cooked: dict[str, Any], attempt: Run) -> None:
    attempt.launch.n_passes += 1
    run.set_current(attempt)
    try:
        _check_returned(attempt.launch.kernel, function(**cooked))
        attempt.commit()
    except (Split, Blocked):
        attempt.roll_back()
        raise
    except Exception as error:
        attempt.keep_log()
        meaning = explained(error)
        if meaning is error:
            raise
        raise meaning from error
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
    )


def _suspicious(state: LaunchState, buffers: Any) -> frozenset[int]:
    """Buffers where one program may touch what another writes."""
    if not state.checked:
        return frozenset()
    mixed = {
        b.address
        for b in buffers
        if (b.was_read and b.was_written) or (b.had_atomics and (b.was_read or b.was_written))
    }
    return frozenset(mixed | state.suspects)


def _restarted(state: LaunchState, buffers: Any, wanted: frozenset[int]) -> LaunchState:
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
        accesses=None if state.accesses is None else [],
    )


def _mark_written(buffers: Any, state: LaunchState) -> None:
    for buffer in buffers:
        if buffer.mark is not None and (buffer.was_written or buffer.had_atomics):
            buffer.mark.last_writer = state.kernel, state.definition


def _publish(
    state: LaunchState,
    n_programs: int,
    windows: list[Argument],
    compiled: Specialisation | None,
) -> None:
    if not is_recording():
        return
    empty = ArgumentTraffic()
    traffic = {
        w.name: ArgumentTraffic(*state.traffic[w.name]) if w.name in state.traffic else empty
        for w in windows
    }
    modelled = log.cache_to_model()
    if state.accesses is not None and modelled is not None:
        moved = cache.dram_bytes(state.accesses, modelled)
        for name, counted in traffic.items():
            read, written = moved.get(name, (0, 0))
            traffic[name] = replace(counted, dram_read_bytes=read, dram_written_bytes=written)
    for name in sorted(state.float_atomics):
        state.findings.append(
            Finding(
                "note",
                state.kernel,
                *state.definition,
                source_line(*state.definition),
                (0, 0, 0),
                name,
                None,
                f"atomic additions of floats to {name}: the order, and so the last bits of the "
                "result, differ from run to run",
                1,
                advice.FLOAT_ATOMICS,
            )
        )
    loops = _loops(state, n_programs)
    seen = Launch(state.kernel, state.grid, traffic, n_programs, state.n_passes, compiled, loops)
    log.publish(seen, state.findings)


def _loops(state: LaunchState, n_programs: int) -> tuple[Loop, ...]:
    turns: dict[tuple[str, int], Array] = {}
    for loop, ids, n in state.turns:
        turns.setdefault(loop, np.zeros(n_programs, np.int64))[ids] += n
    return tuple(
        Loop(*at, source_line(*at), int(n.sum()), int(n.min()), int(n.max()))
        for at, n in sorted(turns.items())
    )
