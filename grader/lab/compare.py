"""Times several ways to compute one thing on a GPU, by the rules of the benchmarks.

Each call has inputs of its own, drawn on the device, and starts with a cold L2; the time is that
between two CUDA events. The ways take turns in random order. What each returned is compared with
float64. Pays nothing and judges no submission: the ways are our own, in one process.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from grader.measure.fill import make_inputs
from grader.measure.roofline import COPY_BYTES, probe
from grader.measure.statistics import Interval, median_time
from grader.measure.stopwatch import Stopwatch
from grader.measure.timed_calls import TimedCalls, any_nonce
from grader.scorecard import Verdict
from grader.spec import Dtype, InputSpec, Tolerance
from grader.verify import Context, compare

DTYPE: Dtype = "float32"
ITEM_BYTES = 4
# rows compared at either end: all of them in float64 would take more memory than the work itself
CHECKED_ROWS = 256

Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Way:
    """One way to compute it.

    Attributes:
        name: Such as "Triton".
        what: What runs.
        load: Gives the function; may compile, and raise where a tool is missing.
        notes_ms: What the course notes measured, on their GPU.
        runs_nvcc: Loading takes a minute, most of it in other processes.
    """

    name: str
    what: str
    load: Callable[[], Function]
    notes_ms: float | None = None
    runs_nvcc: bool = False


@dataclass(frozen=True)
class Comparison:
    """Ways to compute the same function of an (n, n) matrix; the first is what others are beside.

    Attributes:
        name: Its name on the command line.
        title: Its name in a heading.
        oracle: (m, n) float64 to (m, n) float64, row by row.
        tolerance: n to what float32 may be wrong by.
        ways: In the order of the table.
    """

    name: str
    title: str
    oracle: Function
    tolerance: Callable[[int], Tolerance]
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class Timed:
    """One row of the table: ``ms`` is None where there is no time, ``reason`` says why."""

    way: Way
    ms: Interval | None = None
    reason: str = ""


def load(
    comparisons: Sequence[Comparison], tell: Callable[[str], None]
) -> dict[Way, Function | Exception]:
    """Load all ways before anything is timed; those that run nvcc last, side by side.

    What cannot be loaded is an exception in the result.
    """
    ways = [way for comparison in comparisons for way in comparison.ways]
    quick = [way for way in ways if not way.runs_nvcc]
    slow = [way for way in ways if way.runs_nvcc]

    def one(way: Way) -> Function | Exception:
        start = time.perf_counter()
        try:
            return way.load()
        except Exception as error:  # noqa: BLE001  a tool that is missing costs its own row only
            return error
        finally:
            tell(f"{way.name}, {way.what}: loaded in {time.perf_counter() - start:.1f} s")

    loaded = {way: one(way) for way in quick}
    with ThreadPoolExecutor(max(len(slow), 1)) as pool:
        return loaded | dict(zip(slow, pool.map(one, slow), strict=True))


def times(
    comparison: Comparison,
    loaded: Mapping[Way, Function | Exception],
    n: int,
    n_calls: int,
    new_stopwatch: Callable[[], Stopwatch],
    rng: random.Random,
    tell: Callable[[str], None],
) -> list[Timed]:
    """Time all ways; one that was not loaded, or returns something wrong, has a reason instead.

    Args:
        comparison: What to compute.
        loaded: By ``load``.
        n: Rows and columns.
        n_calls: Timed calls of each way, after the warm-up.
        new_stopwatch: One for each way: it fits itself to the launch cost.
        rng: Decides who goes next.
        tell: Told what goes on.
    """
    reasons: dict[Way, str] = {}
    calls: dict[Way, TimedCalls] = {}
    for way in comparison.ways:
        tell(f"{comparison.name}: {way.name} warms up")
        prepared = _prepared(comparison, loaded[way], n, new_stopwatch)
        if isinstance(prepared, str):
            reasons[way] = prepared
        else:
            calls[way] = prepared
    all_ms: dict[Way, list[float]] = {way: [] for way in calls}
    for way in _turns(list(calls), n_calls, rng):
        all_ms[way].append(calls[way].call(any_nonce()).event_ms)
    rows = [
        Timed(way, median_time(all_ms[way])) if way in all_ms else Timed(way, reason=reasons[way])
        for way in comparison.ways
    ]
    for row in rows:
        what = row.reason if row.ms is None else f"{row.ms.value:.4f} ms"
        tell(f"{comparison.name}: {row.way.name}: {what}")
    return rows


def _prepared(
    comparison: Comparison,
    loaded: Function | Exception,
    n: int,
    new_stopwatch: Callable[[], Stopwatch],
) -> TimedCalls | str:
    """One way warmed up, or why not."""
    if isinstance(loaded, Exception):
        return _first_line(loaded)
    specs = (InputSpec("x", (n, n), DTYPE),)
    calls = TimedCalls(loaded, specs, {}, "forward", new_stopwatch())
    try:
        calls.prepare()
        return _wrong(comparison, specs, calls) or calls
    except Exception as error:  # noqa: BLE001  compiled at its first call, with a tool that is missing
        return _first_line(error)


def copy_bytes_per_s(stopwatch: Stopwatch, n_calls: int, n_bytes: int = COPY_BYTES) -> float:
    """Bytes read plus bytes written in a second by a copy, timed by the same rules."""
    copy = TimedCalls(
        probe("copy"), (InputSpec("x", (n_bytes // ITEM_BYTES,), DTYPE),), {}, "forward", stopwatch
    )
    copy.prepare()
    ms = statistics.median(copy.call(any_nonce()).event_ms for _ in range(n_calls))
    return 2 * n_bytes / (ms / 1e3)


def copy_ms(n: int, bytes_per_s: float) -> float:
    """The time of a copy of the matrix: one read and one write of every element.

    At 1 TB/s a matrix of 16384 rows and columns, 2 x 1.07 GB, takes 2.15 ms.
    """
    return 2 * n * n * ITEM_BYTES / bytes_per_s * 1e3


def _turns(ways: Sequence[Way], n_rounds: int, rng: random.Random) -> Iterator[Way]:
    for _ in range(n_rounds):
        yield from rng.sample(ways, len(ways))


def _wrong(comparison: Comparison, specs: Sequence[InputSpec], calls: TimedCalls) -> str:
    """What is wrong with one call's result, in its first and last rows; "" if nothing."""
    nonce = any_nonce()
    calls.call(nonce)
    (got,) = calls.fetch().outputs
    (x,) = make_inputs(specs, nonce, got.device)
    if got.shape != x.shape or got.dtype != x.dtype:
        return f"returned {got.dtype} {tuple(got.shape)}, want {x.dtype} {tuple(x.shape)}"
    for rows in (slice(None, CHECKED_ROWS), slice(-CHECKED_ROWS, None)):
        check = compare(
            got[rows],
            comparison.oracle(x[rows].double()),
            comparison.tolerance(x.shape[1]),
            output="y",
            wrong_verdict=Verdict.WRONG_VALUE,
            context=Context(comparison.name, "each way must compute the same"),
        )
        if check is not None:
            return "\n".join(str(check.cause).splitlines()[:2])
    return ""


def _first_line(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
