"""A GPU that is not there: torch.cuda and time act on it while a submission is timed.

Its clock stands still but for what the submission does: reading a clock, recording an event and
launching cost the host a little, the work itself runs on the device meanwhile, and only who waits
for it sees the time that it takes. What happened is the log; the verifier judges it.

Not modelled: CUDA graphs, several devices, other ways to wait than those named here, and clocks that
a file beside the submission has imported by name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import statistics
import sys
import time
import timeit
from collections import deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Self
from unittest import mock

import torch

from grader import simulator

ENTRIES = ("benchmark", "summarize")

# what the host pays, in ns; usual on a server
CLOCK_NS, RECORD_NS, QUERY_NS, SYNCHRONIZE_NS = 200, 2_000, 5_000, 5_000
BOOT_NS = 3_600_000_000_000  # perf_counter starts at any value
EPOCH_NS = 1_800_000_000_000_000_000  # so does time.time, at a date
MAX_RUNS = 1000
# a log has 48 KiB. Of what is neither run nor elapsed the first and the last between two runs are
# kept, and each elapsed time once, so that readings in a loop push out none that times are taken from
MAX_BETWEEN = 5
MAX_ELAPSED = 200
MAX_RECORDS = 800
CUDA = torch.device("cuda", 0)
REAL_SIZES = (2048, 8192)  # of the matrices on a real GPU
N_OWN = 5  # products that are timed here, before and after the submission


class Device:
    """One GPU with its streams, seen from one host thread. All times in ns since its start.

    Attributes:
        now: The host's clock.
        waited: How much of it the host spent waiting.
        busy_until: Per stream, when its work will be done.
        records: What happened, as (what, when, number): a clock's name with what it showed, "run"
            with when its work is done, "transfer" and "synchronize" with when they ended, "record"
            with when the device passes the mark, "elapsed" with what it gave in ms.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.now = self.waited = self.n_runs = self.n_between = 0
        self.streams = [Stream(self)]
        self.busy_until: dict[int, int] = {0: _ns(arguments["pending_us"])}
        self.records: list[tuple[str, int, int | float]] = []
        self.elapsed: set[int | float] = set()
        self.latest: deque[tuple[str, int, int | float]] = deque(maxlen=MAX_BETWEEN)

    def log(self, what: str, when: int, number: float) -> None:
        """Keep one record, while there is room for its kind."""
        record = what, when, number
        if what == "elapsed":
            if number not in self.elapsed and len(self.elapsed) < MAX_ELAPSED:
                self.elapsed.add(number)
                self.records.append(record)
        elif what == "run":
            self.records = [*self.told(), record]
            self.n_between = 0
            self.latest.clear()
        elif self.n_between < MAX_BETWEEN:
            self.n_between += 1
            self.records.append(record)
        else:
            self.latest.append(record)

    def told(self) -> list[tuple[str, int, int | float]]:
        """What was kept by now."""
        return [*self.records, *self.latest][:MAX_RECORDS]

    def run(self) -> Result:
        """Launch one call's work on the current stream."""
        k = min(self.n_runs, self.arguments["n_drawn"] - 1)
        self.n_runs += 1
        if self.n_runs > MAX_RUNS:
            raise RuntimeError(f"run() was called over {MAX_RUNS} times")
        called = self.now
        self.now += _ns(self.arguments[f"launch_us.{k}"])
        stream = self.streams[-1].stream_id
        begins = max(self.now, self.busy_until[stream])
        self.busy_until[stream] = begins + _ns(self.arguments[f"duration_us.{k}"])
        self.log("run", called, self.busy_until[stream])
        return Result(self)

    def wait_until(self, then: int) -> None:
        """Let the host stand still until then."""
        began = self.now
        self.now = max(self.now, then) + SYNCHRONIZE_NS
        self.waited += self.now - began
        self.log("synchronize", began, self.now)

    def wait(self) -> None:
        """Wait for all streams."""
        self.wait_until(max(self.busy_until.values()))

    def transfer(self) -> None:
        """Copy a result to the host: wait for it, then move it."""
        began = self.now
        done = max(self.busy_until.values())
        self.now = max(self.now, done) + _ns(self.arguments["transfer_us"])
        self.log("transfer", began, self.now)

    def read(self, clock: str) -> int:
        """What a clock shows, in ns."""
        self.now += CLOCK_NS
        shown = self.now - self.waited if clock in {"process_time", "thread_time"} else self.now
        self.log(clock, self.now, shown)
        return shown + (EPOCH_NS if clock == "time" else BOOT_NS)


class Result:
    """What run() returns: on the device, and looking at it moves it to the host."""

    device, is_cuda = CUDA, True

    def __init__(self, device: Device) -> None:
        self._device = device

    def _moved(self, *_args: Any, **_kwargs: Any) -> Any:
        self._device.transfer()
        return torch.zeros(1)

    cpu = to = _moved

    def item(self) -> float:
        """Its value, on the host."""
        return float(self._moved())

    def tolist(self) -> list[float]:
        """Its values, on the host."""
        return [self.item()]

    def numpy(self) -> Any:
        """Its values, on the host."""
        return self._moved().numpy()

    def __float__(self) -> float:
        return self.item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __repr__(self) -> str:
        return f"tensor([{self.item()}], device='cuda:0')"


class Stream:
    """torch.cuda.Stream of the device."""

    device = CUDA

    def __init__(self, device: Device, stream_id: int = 0) -> None:
        self._device, self.stream_id = device, stream_id

    @property
    def done(self) -> int:
        """When its work will be done."""
        return self._device.busy_until[self.stream_id]

    def synchronize(self) -> None:
        """Let the host wait for this stream."""
        self._device.wait_until(self.done)

    def query(self) -> bool:
        """Whether its work is done."""
        self._device.now += QUERY_NS
        return self.done <= self._device.now

    def record_event(self, event: Event | None = None) -> Event:
        """Put a mark into this stream."""
        event = event or Event(self._device)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream wait for an event."""
        self._wait_for(event.at or 0)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work of this stream wait for another's."""
        self._wait_for(stream.done)

    def _wait_for(self, then: int) -> None:
        self._device.busy_until[self.stream_id] = max(self.done, then)

    def __enter__(self) -> Self:
        self._device.streams.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self._device.streams.pop()


class Event:
    """torch.cuda.Event of the device; ``at`` is when the device passes it."""

    def __init__(self, device: Device, enable_timing: bool = False) -> None:
        self._device, self._timed = device, enable_timing
        self.at: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Put a mark into the stream."""
        device, stream = self._device, stream or self._device.streams[-1]
        device.now += RECORD_NS
        self.at = max(device.now, stream.done)
        device.log("record", device.now, self.at)

    def synchronize(self) -> None:
        """Let the host wait until the device has passed it."""
        self._device.wait_until(self.at or 0)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of the stream wait for it."""
        (stream or self._device.streams[-1]).wait_event(self)

    def query(self) -> bool:
        """Whether the device has passed it."""
        self._device.now += QUERY_NS
        return (self.at or 0) <= self._device.now

    def elapsed_time(self, end_event: Event) -> float:
        """Time from this event to another, in ms.

        Raises:
            RuntimeError: As on a real GPU, if there is no such time, or not yet.
        """
        start, end = self.at, end_event.at
        if not (self._timed and end_event._timed):
            raise RuntimeError("elapsed_time: make both events with enable_timing=True")
        if start is None or end is None:
            raise RuntimeError("elapsed_time: record() both events first")
        if max(start, end) > self._device.now:
            raise RuntimeError(
                "elapsed_time: the GPU has not passed both events yet; wait for it first, with"
                " torch.cuda.synchronize() or the event's own synchronize()"
            )
        took_ms = (end - start) / 1e6
        self._device.log("elapsed", self._device.now, took_ms)
        return took_ms


def run(submission: ModuleType, case: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What one case saw: returned values, and for a benchmark what happened meanwhile."""
    kind = case.partition("-")[0]
    if kind == "summarize":
        times_ms = [v for name, v in arguments.items() if name.startswith("time_ms.")]
        return {"returned": _number(submission.summarize(times_ms))}
    asked = {name: arguments[name] for name in ("num_warmups", "num_trials")}
    if kind == "matmul" and (matrices := _on_a_real_gpu()):
        return _on_the_real_one(submission, matrices, asked)
    device = Device(arguments)
    with _in_place(device), _imported_anew(submission) as again:
        returned = again.benchmark(device.run, **asked)
    return {
        "returned": _numbers(returned),
        "n_runs": device.n_runs,
        "records": device.told(),
    }


def _on_a_real_gpu() -> list[torch.Tensor]:
    """Matrices on the GPU of this machine; none where it has none that can be used."""
    if not torch.cuda.is_available():
        return []
    try:
        return [torch.randn(n, n, device="cuda", dtype=torch.float16) for n in REAL_SIZES]
    except RuntimeError:  # no memory left on it, or none for CUDA in this process
        return []


def _on_the_real_one(
    submission: ModuleType, matrices: list[torch.Tensor], asked: dict[str, Any]
) -> dict[str, Any]:
    log = {}
    for a in matrices:
        n_runs = 0

        def multiply(a: torch.Tensor = a) -> torch.Tensor:
            nonlocal n_runs
            n_runs += 1
            # one element: what item() and float() take, as on the modelled GPU
            return (a @ a)[0, 0]

        before_ms = _by_events(multiply)
        n_runs = 0
        began = time.perf_counter()
        returned = submission.benchmark(multiply, **asked)
        torch.cuda.synchronize()
        wall_ms = 1e3 * (time.perf_counter() - began)
        log[f"matmul_{len(a)}"] = {
            "returned": _numbers(returned),
            "n_runs": n_runs,
            "wall_ms": wall_ms,
            "own_ms": [before_ms, _by_events(multiply)],
        }
    return log


def _by_events(multiply: Callable[[], torch.Tensor]) -> float:
    """What one product takes on this GPU, as other work on it leaves it, in ms."""
    multiply()
    event: Any = torch.cuda.Event  # which torch leaves untyped
    times_ms: list[float] = []
    for _ in range(N_OWN):
        start, stop = event(enable_timing=True), event(enable_timing=True)
        start.record()
        multiply()
        stop.record()
        torch.cuda.synchronize()
        times_ms.append(start.elapsed_time(stop))
    return statistics.median(times_ms)


def _number(value: Any) -> Any:
    """A number of NumPy or torch as Python's; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _numbers(value: Any) -> Any:
    return [_number(item) for item in value] if isinstance(value, list | tuple) else value


def _ns(us: float) -> int:
    return round(1000 * us)


@contextlib.contextmanager
def _in_place(device: Device) -> Iterator[None]:
    """Have torch.cuda and time act on the device."""
    with contextlib.ExitStack() as stack:
        # tensors on "cuda" may be made, for what else a careful benchmark does
        stack.enter_context(simulator.pretend_gpu())
        by_module = _functions(device)
        clock = by_module[timeit]["default_timer"]
        # these took the default timer for a default when timeit was imported
        for function in (timeit.Timer.__init__, timeit.timeit, timeit.repeat):
            known = function.__defaults__ or ()
            defaults = tuple(clock if it is timeit.default_timer else it for it in known)
            stack.enter_context(mock.patch.object(function, "__defaults__", defaults))
        for module, named in by_module.items():
            stack.enter_context(mock.patch.multiple(module, **named))
        yield


@contextlib.contextmanager
def _imported_anew(submission: ModuleType) -> Iterator[ModuleType]:
    """The submission once more, so that a clock that it takes while it is imported is the device's.

    That is a name imported from time, the default of a parameter, an attribute of a class.
    """
    name = submission.__name__
    spec = importlib.util.spec_from_file_location(name, submission.__file__ or "")
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = again
    try:
        spec.loader.exec_module(again)
        yield again
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before


def _functions(gpu: Device) -> dict[ModuleType, dict[str, Any]]:
    """By module, what takes time or waits; parameters are named as in torch."""

    def made_event(
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Event:
        return Event(gpu, enable_timing)

    def made_event_of_any_device(device: Any = None, **settings: bool) -> Event:
        return made_event(**settings)

    def made_stream(device: Any = None, priority: int = 0, **_more: Any) -> Stream:
        stream = Stream(gpu, len(gpu.busy_until))
        gpu.busy_until[stream.stream_id] = 0
        return stream

    def synchronize(device: Any = None) -> None:
        gpu.wait()

    def current_stream(device: Any = None) -> Stream:
        return gpu.streams[-1]

    def default_stream(device: Any = None) -> Stream:
        return gpu.streams[0]

    def set_stream(stream: Stream) -> None:
        gpu.streams[-1] = stream

    def sleep(seconds: float, /) -> None:
        gpu.now += _ns(1e6 * seconds)

    clocks = ("perf_counter", "monotonic", "time", "process_time", "thread_time")
    host = {name: lambda name=name: gpu.read(name) / 1e9 for name in clocks}
    host |= {f"{name}_ns": lambda name=name: gpu.read(name) for name in clocks}
    of_any_device = {
        "synchronize": synchronize,
        "current_stream": current_stream,
        "set_stream": set_stream,
    }
    cuda = of_any_device | {
        "default_stream": default_stream,
        "stream": lambda stream: stream or contextlib.nullcontext(),
        "Stream": made_stream,
        "Event": made_event,
    }
    accelerator = of_any_device | {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device_index": lambda: CUDA.index,
        "current_accelerator": lambda check_available=False: torch.device(CUDA.type),
    }
    return {
        time: host | {"sleep": sleep},
        timeit: {"default_timer": host["perf_counter"]},
        torch: {"Event": made_event_of_any_device, "Stream": made_stream},
        torch.cuda: cuda,
        torch.accelerator: accelerator,
    }
