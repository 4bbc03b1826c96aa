"""What happens around a timed run, in what order, on a made-up GPU."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch

from grader.measure import stopwatch
from grader.measure.constants import MAX_SPIN_US, MIN_SPIN_US
from grader.measure.stopwatch import CudaStopwatch, ScriptedStopwatch

CYCLES_PER_US = 2000
L2_BYTES = 1000


class Gpu:
    """A queue with a clock: the host runs ahead, the GPU works through what it was given."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.host_us = 0.0
        self.gpu_us = 0.0
        self.n_events = 0

    def launch(self, what: str, gpu_us: float, host_us: float = 1.0) -> None:
        """Queue work that takes ``gpu_us`` after a launch of ``host_us``."""
        self.log.append(what)
        self.host_us += host_us
        self.gpu_us = max(self.gpu_us, self.host_us) + gpu_us

    def synchronize(self, device: torch.device) -> None:
        """Let the host wait."""
        self.log.append("synchronize")
        self.host_us = self.gpu_us = max(self.host_us, self.gpu_us)

    def sleep(self, cycles: int) -> None:
        """Spin."""
        self.launch(f"spin {cycles / CYCLES_PER_US:.0f} us", cycles / CYCLES_PER_US)


class Event:
    """A CUDA event of the made-up GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.at_us = -1.0

    def record(self) -> None:
        """Queue the event."""
        self.gpu.launch("event", 0)
        self.at_us = self.gpu.gpu_us

    def query(self) -> bool:
        """Whether the GPU has passed it."""
        return self.gpu.host_us >= self.at_us

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds to another event."""
        return (end.at_us - self.at_us) / 1e3


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A GPU of 2 GHz that allocates 70 bytes in the first call."""
    gpu = Gpu()
    for name, value in {
        "_Event": lambda *, enable_timing: Event(gpu),
        "_properties": lambda _device: SimpleNamespace(L2_cache_size=L2_BYTES),
        "_synchronize": gpu.synchronize,
        "_sleep": gpu.sleep,
        "_memory_allocated": lambda _device: 30,
        "_max_memory_allocated": lambda _device: 100,
        "_reset_peak": lambda _device: None,
        "_perf_counter": lambda: gpu.host_us / 1e6,
    }.items():
        monkeypatch.setattr(stopwatch, name, value)
    return gpu


@pytest.fixture
def watch(gpu: Gpu) -> CudaStopwatch:
    """A stopwatch on it, its log empty."""
    watch = CudaStopwatch(torch.device("cpu"))
    watch._flush = SimpleNamespace(zero_=lambda: gpu.launch("flush", 50))  # type: ignore[assignment]
    gpu.log.clear()
    return watch


def test_over_twice_the_l2_is_flushed(gpu: Gpu) -> None:
    """The flushed buffer follows the L2's size."""
    watch = CudaStopwatch(torch.device("cpu"))

    assert watch._flush.numel() > 2 * L2_BYTES


def test_order_of_a_timed_run(gpu: Gpu, watch: CudaStopwatch) -> None:
    """Wait, flush, spin, start, work, end, wait for the whole device."""
    timed = watch.time(lambda: gpu.launch("work", 700))

    assert gpu.log == [
        "synchronize",
        "flush",
        f"spin {MIN_SPIN_US:.0f} us",
        "event",
        "work",
        "event",
        "synchronize",
    ]
    assert timed.peak_bytes == 70


def test_launch_time_is_not_in_the_time(gpu: Gpu, watch: CudaStopwatch) -> None:
    """Work of 700 us that the host needs 150 us to launch takes 700 us: the spin hides it."""
    timed = watch.time(lambda: gpu.launch("work", 700, host_us=150))

    assert timed.event_ms == pytest.approx(0.7)


def test_a_spin_that_was_too_short_grows(gpu: Gpu, watch: CudaStopwatch) -> None:
    """Launching for 900 us outlasts the spin; two calls later it does not."""
    times_ms = [watch.time(lambda: gpu.launch("work", 700, host_us=900)).event_ms for _ in range(4)]

    assert times_ms[0] > 0.71
    assert times_ms[3] == pytest.approx(0.7)


def test_spin_is_sized_from_the_launch(gpu: Gpu, watch: CudaStopwatch) -> None:
    """A launch of 900 us gets a spin of over 900 us, a cheap one the least."""
    watch.size_spin(lambda: lambda: gpu.launch("work", 700, host_us=900))

    assert watch.spin_us > 900
    assert watch.time(lambda: gpu.launch("work", 700, host_us=900)).event_ms == pytest.approx(0.7)


def test_spin_has_an_end(gpu: Gpu, watch: CudaStopwatch) -> None:
    """A launch of a second gets the longest spin, and keeps it."""
    watch.size_spin(lambda: lambda: gpu.launch("work", 700, host_us=1e6))
    watch.time(lambda: gpu.launch("work", 700, host_us=1e6))

    assert watch.spin_us == MAX_SPIN_US


def test_no_garbage_is_collected_during_the_work(watch: CudaStopwatch) -> None:
    """The collector is off inside, and on again after an exception too."""

    def fail() -> None:
        assert not gc.isenabled()
        raise RuntimeError("student")

    with pytest.raises(RuntimeError, match="student"):
        watch.time(fail)
    assert gc.isenabled()


def test_replacing_torchs_clock_changes_nothing(
    gpu: Gpu, watch: CudaStopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stopwatch holds torch's functions of before."""
    monkeypatch.setattr(torch.cuda, "synchronize", pytest.fail)
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", pytest.fail)

    assert watch.time(lambda: gpu.launch("work", 700)).event_ms == pytest.approx(0.7)


def test_scripted_times_are_repeatable() -> None:
    """Equal seeds give equal times around the median; no noise gives the median itself."""
    one, two, other = (
        [ScriptedStopwatch(2.0, noise=0.1, seed=seed).time(int).event_ms for _ in range(3)]
        for seed in (1, 1, 2)
    )

    assert one == two != other
    assert ScriptedStopwatch(2.0).time(lambda: "result").event_ms == 2
    assert ScriptedStopwatch(2.0).time(lambda: "result").result == "result"
