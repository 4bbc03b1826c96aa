"""One timed run of a piece of GPU work: a real stopwatch, and one that makes its times up.

Not covered: work on other streams that started before the start event, persisting L2 lines, and
native code in the process that forges events. The clock outside the process bounds those.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

from grader.measure.constants import (
    FLUSH_FACTOR,
    FLUSH_FALLBACK_BYTES,
    LAUNCH_PROBES,
    MAX_SPIN_US,
    MIN_SPIN_US,
    SPIN_FACTOR,
)

# bound before any student code is imported, so that replacing them in torch changes nothing here
_Event: Callable[..., Any] = torch.cuda.Event
_properties = torch.cuda.get_device_properties
_synchronize = torch.cuda.synchronize
_sleep: Callable[[int], None] = torch.cuda._sleep  # noqa: SLF001  no public spin kernel
_memory_allocated = torch.cuda.memory_allocated
_max_memory_allocated = torch.cuda.max_memory_allocated
_reset_peak = torch.cuda.reset_peak_memory_stats
_perf_counter = time.perf_counter

# long enough to be timed well, 0.5 ms at 2 GHz
_CLOCK_PROBE_CYCLES = 1_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """What one run returned and took."""

    result: T
    event_ms: float
    peak_bytes: int
    """Most bytes allocated at once during the run, beyond those allocated before it."""


class Stopwatch(Protocol):
    """Times work on one device."""

    @property
    def device(self) -> torch.device:
        """Where the work's tensors must be."""

    @property
    def spin_us(self) -> float:
        """How long the GPU is held before the start event, in microseconds."""

    def size_spin(self, make_work: Callable[[], Callable[[], object]]) -> None:
        """Fit the spin to the host's time of launching the work, made anew a few times."""

    def time(self, work: Callable[[], T]) -> Timed[T]:
        """Run ``work`` once, from a cold L2, and wait for everything on the device."""


class CudaStopwatch:
    """GPU time between two events, launches hidden behind a spin kernel, L2 cold."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.spin_us = MIN_SPIN_US
        l2_bytes = getattr(_properties(device), "L2_cache_size", 0)
        n_flush = int(FLUSH_FACTOR * l2_bytes) or FLUSH_FALLBACK_BYTES
        self._flush = torch.empty(n_flush, dtype=torch.uint8, device=device)
        self._start = _Event(enable_timing=True)
        self._end = _Event(enable_timing=True)
        self._cycles_per_us = self._measure_clock()

    def size_spin(self, make_work: Callable[[], Callable[[], object]]) -> None:
        """Fit the spin to the slowest of a few launches.

        Work that waits for the GPU itself counts its waiting as launch cost; the spin's upper
        limit bounds that, and such work gains nothing from a longer spin.
        """
        slowest_us = max(self._launch_us(make_work) for _ in range(LAUNCH_PROBES))
        _synchronize(self.device)
        self.spin_us = min(MAX_SPIN_US, MIN_SPIN_US + SPIN_FACTOR * slowest_us)

    def time(self, work: Callable[[], T]) -> Timed[T]:
        """Flush, spin, start event, work, end event, synchronise the device."""
        gc_was_on = gc.isenabled()
        # a collection takes milliseconds with torch loaded, longer than the spin
        gc.disable()
        try:
            _synchronize(self.device)
            _reset_peak(self.device)
            before_bytes = _memory_allocated(self.device)
            self._flush.zero_()
            _sleep(int(self.spin_us * self._cycles_per_us))
            self._start.record()
            result = work()
            self._end.record()
            # the start event has passed: the spin ended while the host was still launching
            was_late = self._start.query()
            _synchronize(self.device)
        finally:
            if gc_was_on:
                gc.enable()
        if was_late:
            self.spin_us = min(MAX_SPIN_US, self.spin_us * SPIN_FACTOR)
        peak_bytes = max(0, _max_memory_allocated(self.device) - before_bytes)
        return Timed(result, self._start.elapsed_time(self._end), peak_bytes)

    def _launch_us(self, make_work: Callable[[], Callable[[], object]]) -> float:
        # a function of its own, so that one work's inputs are freed before the next are made
        work = make_work()
        _synchronize(self.device)
        started = _perf_counter()
        work()
        return (_perf_counter() - started) * 1e6

    def _measure_clock(self) -> float:
        """SM cycles in a microsecond: the fastest of a few spins, after one that wakes the GPU."""
        cycles_per_us = 0.0
        for cycles in (20 * _CLOCK_PROBE_CYCLES, *(_CLOCK_PROBE_CYCLES,) * 5):
            self._start.record()
            _sleep(cycles)
            self._end.record()
            _synchronize(self.device)
            elapsed_us = self._start.elapsed_time(self._end) * 1e3
            cycles_per_us = max(cycles_per_us, cycles / elapsed_us)
        return cycles_per_us


class ScriptedStopwatch:
    """Runs the work on the CPU and makes its time up, so that all else runs without a GPU.

    Args:
        median_ms: The made-up time, in milliseconds.
        noise: Standard deviation of the logarithm of the time.
        seed: Of the noise; equal seeds give equal times.
    """

    def __init__(self, median_ms: float, *, noise: float = 0.0, seed: int = 0) -> None:
        self.device = torch.device("cpu")
        self.spin_us = 0.0
        self._median_ms = median_ms
        self._noise = noise
        self._rng = random.Random(seed)  # noqa: S311  made-up times are no secret

    def size_spin(self, make_work: Callable[[], Callable[[], object]]) -> None:
        """Run the work as often as the real stopwatch does."""
        for _ in range(LAUNCH_PROBES):
            make_work()()

    def time(self, work: Callable[[], T]) -> Timed[T]:
        """Run ``work`` once; the time does not depend on it."""
        result = work()
        return Timed(result, self._median_ms * self._rng.lognormvariate(0, self._noise), 0)
