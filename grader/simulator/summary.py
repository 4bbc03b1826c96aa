"""What is told of a launch when it has ended: traffic, loops, notes on the whole of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from grader.simulator import advice, cache, log
from grader.simulator.dtypes import Array
from grader.simulator.errors import source_line
from grader.simulator.launch_state import LaunchState
from grader.simulator.log import ArgumentTraffic, Finding, Launch, Loop
from grader.simulator.memory import Argument, Buffer
from grader.simulator.specialisation import Specialisation


def mark_written(buffers: Iterable[Buffer], state: LaunchState) -> None:
    """Remember in memory from torch.empty which kernel wrote there last."""
    for buffer in buffers:
        if buffer.mark is not None and (buffer.was_written or buffer.had_atomics):
            buffer.mark.last_writer = state.kernel, state.definition


def publish(
    state: LaunchState,
    n_programs: int,
    windows: list[Argument],
    compiled: Specialisation | None,
) -> None:
    """Hand a launch, finished or failed, to the open logs."""
    if not log.is_recording():
        return
    traffic = _traffic(state, windows)
    state.findings += [_float_atomics(state, name) for name in sorted(state.float_atomics)]
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


def _traffic(state: LaunchState, windows: list[Argument]) -> dict[str, ArgumentTraffic]:
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
    return traffic


def _float_atomics(state: LaunchState, name: str) -> Finding:
    return Finding(
        "note",
        state.kernel,
        *state.float_atomics[name],
        source_line(*state.float_atomics[name]),
        (0, 0, 0),
        name,
        None,
        f"atomic additions of floats to {name}: the order, and so the last bits of the "
        "result, differ from run to run",
        1,
        advice.FLOAT_ATOMICS,
    )
