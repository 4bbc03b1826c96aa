"""grader.simulator.run: what a pass wrote is undone exactly, and kept once however often it writes."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest

from grader.simulator import run
from grader.simulator.launch_state import LaunchState
from grader.simulator.run import Run

N = 1024


def a_pass() -> Run:
    """A pass of one program."""
    state = LaunchState("kernel", (1, 1, 1), checked=False)
    return Run(state, np.zeros(1, np.int32), np.zeros((3, 1), np.int32), Counter())


def some_places(rng: np.random.Generator) -> list[Any]:
    """Slices that overlap, with steps; and scattered elements, some of them twice."""
    bounds = [sorted(map(int, rng.integers(0, N, 2))) for _ in range(6)]
    slices = [slice(low, high + 1, int(rng.integers(1, 4))) for low, high in bounds]
    return [*slices, *(rng.integers(0, N, 50) for _ in range(3))]


@pytest.mark.parametrize("journal_bytes", [run.JOURNAL_BYTES, 0])
def test_a_pass_is_undone(monkeypatch: pytest.MonkeyPatch, journal_bytes: int) -> None:
    """Whatever it wrote, in whatever order, again and again to the same places."""
    monkeypatch.setattr(run, "JOURNAL_BYTES", journal_bytes)
    rng = np.random.default_rng(3)
    for _ in range(50):
        raw = rng.integers(0, 1 << 30, N).astype(np.int32)
        before, attempt, places = raw.copy(), a_pass(), some_places(rng)
        for at in rng.integers(0, len(places), 30):
            attempt.save(raw, places[at])
            raw[places[at]] = rng.integers(0, 1 << 30)
        assert (raw != before).any()

        attempt.roll_back()

        assert (raw == before).all()


@pytest.mark.parametrize(
    "place", [slice(None), np.arange(N)[::-1].copy()], ids=["slice", "scattered"]
)
def test_a_loop_that_stores_takes_no_more_memory(
    monkeypatch: pytest.MonkeyPatch, place: Any
) -> None:
    """A million bytes written a thousand times: what was there first is kept, once."""
    monkeypatch.setattr(run, "JOURNAL_BYTES", 1 << 14)
    raw, attempt = np.zeros(N, np.float64), a_pass()
    tracemalloc.start()
    for _ in range(1000):
        attempt.save(raw, place)
        raw[place] += 1
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 10 * raw.nbytes
    attempt.roll_back()
    assert (raw == 0).all()
