"""Timing work on a GPU: warm-ups, waiting, one time per trial, and a median.

scenario.py runs the submission on a modelled GPU whose every call takes a time that is drawn here,
and tells what happened. The judge compares the returned times with those, and where they differ
finds out from the record of what happened which mistake was made. Events and clocks are both right.

A submission that looks around in its own process finds the times that were drawn, or can forge the
record: it is code of the process that it runs in. That returned times must come from readings in the
record, which take longer than the drawn times, makes a plain copy of those times no way out.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from grader.scenarios import Log, Mistake, has_form, is_number, shown
from grader.spec import Case, Inputs, scenario, scenario_case

RTOL = 0.005  # of times: rounding them to 0.01 ms is no mistake
MAX_HOST_MS = 0.06  # what reading clocks, recording and waiting add to a trial, several times over
COMPILE_US = 100_000
MAX_TOLD = 8  # records of a trial in a message
# a GPU of today multiplies float16 matrices at half this rate; not waiting shows 100 times as much
MAX_FLOPS_PER_MS = 5e12
REAL_SIZES = (2048, 8192)
# beside what scenario.py measures: others may use the GPU, so less than half of a time that it showed
# before and after, within a fifth, is too little, and nothing is said where those two differ by more
LEAST_OF_OWN, MAX_OWN_RATIO = 0.5, 1.2
RTOL_SUMMARY = 1e-6  # of the median: float32 rounds by 6e-8
# what scenario.py logs: what happened, when, and a number; of a real GPU, one of these by size
_RECORD = (str, object, object)
_REAL = {"returned": object, "n_runs": object, "wall_ms": object, "own_ms": (object, object)}
CLOCKS = {"perf_counter", "monotonic", "time", "process_time", "thread_time"}


class Happening(NamedTuple):
    """One record of scenario.py, in ms: what happened, when, and the number that goes with it."""

    what: str
    when: float
    number: float

    @property
    def is_mark(self) -> bool:
        """Whether a time can be taken from it."""
        return self.what in CLOCKS or self.what == "record"


class Seen(NamedTuple):
    """What a benchmark did on the modelled GPU.

    Attributes:
        duration: Of the work of each call, in ms, as drawn.
        longest: Of each call, in ms, as a right submission may measure it.
        returned: The times that came back.
    """

    num_warmups: int
    num_trials: int
    duration: tuple[float, ...]
    longest: tuple[float, ...]
    happenings: tuple[Happening, ...]
    returned: tuple[float, ...]

    def fits(self, times: Sequence[float], first_call: int) -> bool:
        """Whether these are times of as many calls from ``first_call`` on."""
        return all(self.fits_call(time, first_call + i) for i, time in enumerate(times))

    def fits_call(self, time: float, call: int) -> bool:
        """Whether this may be measured for one call."""
        return self.duration[call] * (1 - RTOL) <= time <= self.longest[call] * (1 + RTOL)


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """How long each call takes on the modelled GPU; or the times that are to be summarised."""

    def between(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=rng))

    drawn: Inputs = dict(case.scalars)
    if case.id.startswith("summarize"):
        times = [between(2.0, 3.0) for _ in range(int(case.scalars["n"]))]
        times[int(between(0, len(times) - 1))] *= float(case.scalars["outlier"])
        middle = len(times) // 2
        if times[middle] == statistics.median(times):
            # who forgets to sort must not be right by chance
            times[0], times[middle] = times[middle], times[0]
        return {f"time_ms.{i}": time for i, time in enumerate(times)}
    n = int(case.scalars["num_warmups"]) + int(case.scalars["num_trials"]) + 2
    outlier = int(between(int(case.scalars["num_warmups"]) + 1, n - 3))
    for k in range(n):
        slow = {0: 9.0, outlier: float(case.scalars.get("outlier", 1.0))}.get(k, 1.0)
        drawn[f"duration_us.{k}"] = slow * between(1500, 4000)
        drawn[f"launch_us.{k}"] = between(25, 50) + (COMPILE_US if k == 0 else 0)
    drawn.setdefault("pending_us", 0.0)
    return drawn | {"n_drawn": n, "transfer_us": between(800, 1600)}


def judge(case: Case, arguments: Inputs, log: Log) -> Mistake | None:
    """What is wrong with the returned times, and which mistake made them so."""
    if case.id.startswith("summarize"):
        return _judge_summary([float(v) for v in arguments.values()], log.get("returned"))
    if case.id == "matmul" and "records" not in log:
        return _judge_real(int(arguments["num_warmups"]), int(arguments["num_trials"]), log)
    records: Any = log.get("records")
    n_runs = log.get("n_runs")
    if not has_form(records, [_RECORD]) or not all(map(_is_record, records)):
        return Mistake("the log of the scenario holds no records", verdict="protocol_error")
    num_warmups, num_trials = int(arguments["num_warmups"]), int(arguments["num_trials"])
    mistake = _form(log.get("returned"), n_runs, num_warmups, num_trials)
    if mistake is not None:
        return mistake
    n = int(arguments["n_drawn"])
    duration = [float(arguments[f"duration_us.{k}"]) / 1e3 for k in range(n)]
    launch = [float(arguments[f"launch_us.{k}"]) / 1e3 for k in range(n)]
    seen = Seen(
        num_warmups,
        num_trials,
        tuple(duration),
        tuple(work + asking + MAX_HOST_MS for work, asking in zip(duration, launch, strict=True)),
        tuple(Happening(what, when / 1e6, _in_ms(what, number)) for what, when, number in records),
        tuple(map(float, log["returned"])),
    )
    if seen.fits(seen.returned, num_warmups):
        return _made_up(seen)
    return next(mistake for cause in CAUSES if (mistake := cause(seen)) is not None)


def _is_record(record: Sequence[Any]) -> bool:
    return all(map(is_number, record[1:]))


def _in_ms(what: str, number: float) -> float:
    return float(number) if what == "elapsed" else number / 1e6


def _form(returned: Any, n_runs: Any, num_warmups: int, num_trials: int) -> Mistake | None:
    """Whether there is one number per trial, of as many calls as were asked for."""
    if not isinstance(returned, list):
        advice = "return the time of every trial; whoever calls benchmark takes the median"
        what = f"got {shown(returned)[:200]}, want a list of {num_trials} times in ms"
        return Mistake(what, (advice,), "wrong_type")
    for i, time in enumerate(returned):
        if not is_number(time) or time <= 0:
            what = f"the time of trial {i} is {shown(time)[:200]}, want a positive number of ms"
            return Mistake(what)
    wrong = _counted(len(returned), n_runs, num_warmups, num_trials)
    if wrong is None:
        return None
    counted = (
        f"calls of run(): {shown(n_runs)[:200]}; times returned: {len(returned)}; asked for:"
        f" num_warmups={num_warmups}, num_trials={num_trials}"
    )
    advice = "call run() once for each warm-up and once for each trial, and time the trials"
    return Mistake(wrong, (counted, advice))


def _counted(n_returned: int, n_runs: Any, num_warmups: int, num_trials: int) -> str | None:
    """What is wrong with the number of times, or of calls; None if nothing is."""
    if num_warmups and n_returned == num_warmups + num_trials:
        return "the warm-ups are timed, too"
    if n_returned != num_trials:
        one = ": a single trial may be far from usual" if n_returned == 1 else ""
        return f"the number of times is {n_returned}, want {num_trials}{one}"
    if num_warmups and n_runs == num_trials:
        return "no warm-up: the first trial compiles"
    if n_runs != num_warmups + num_trials:
        return f"the number of calls is {shown(n_runs)[:200]}, want {num_warmups + num_trials}"
    return None


def _in_other_units(seen: Seen) -> Mistake | None:
    for factor, unit in ((1e3, "seconds"), (1e-3, "microseconds"), (1e-6, "nanoseconds")):
        if seen.fits([factor * time for time in seen.returned], seen.num_warmups):
            return Mistake(f"these are {unit}, want milliseconds", (_told(seen, 0),))
    return None


def _of_other_calls(seen: Seen) -> Mistake | None:
    wanted = range(seen.num_warmups, seen.num_warmups + seen.num_trials)
    by_duration = sorted(wanted, key=lambda call: seen.duration[call])
    if all(map(seen.fits_call, sorted(seen.returned), by_duration)):
        return Mistake("the times are right, but not in the order of the trials")
    if seen.num_warmups and seen.fits(seen.returned, 0):
        what = "these are the times of the first calls, want those after the warm-ups"
        return Mistake(what, (_told(seen, 0),))
    return None


def _all_the_same(seen: Seen) -> Mistake | None:
    if seen.num_trials == 1 or max(seen.returned) > min(seen.returned) * (1 + 1e-9):
        return None
    advice = "a mean hides the trial that took ten times as long: time each trial on its own"
    return Mistake(f"all times are {seen.returned[0]:.4g} ms", (advice,))


def _without_a_clock(seen: Seen) -> Mistake | None:
    if any(happening.is_mark for happening in seen.happenings):
        return None
    advice = (
        "use torch.cuda.Event(enable_timing=True), or time.perf_counter() and synchronize();"
        " other clocks, such as datetime, are not made for this"
    )
    return Mistake("no clock was read and no event recorded", (advice,))


def _of_one_trial(seen: Seen) -> Mistake:
    """The first trial with a wrong time, and what happened in it."""
    times = enumerate(seen.returned)
    trial = next(i for i, t in times if not seen.fits_call(t, seen.num_warmups + i))
    call = seen.num_warmups + trial
    got, duration = seen.returned[trial], seen.duration[call]
    what = f"trial {trial}: got {got:.4g} ms, its work took {duration:.4g} ms on the GPU"
    before, run, after = _around(seen, call)
    details = [_told(seen, trial)]
    used = {happening.what for happening in (*before, *after)}
    if used & {"process_time", "thread_time"}:
        advice = "process_time and thread_time stand still while Python waits: take perf_counter"
        return Mistake(f"{what}: a clock that does not count waiting", (*details, advice))
    if got < duration:
        advice = "launching returns at once: synchronize after run() and before the clock is read"
        return Mistake(f"{what}: stopped before the GPU was done", (*details, advice))
    stop = next((h for h in reversed(after) if h.is_mark), None)
    if stop is not None and any(h.what == "transfer" and h.when <= stop.when for h in after):
        advice = (
            "cpu(), item(), float() and print move the result: leave it on the GPU, synchronize"
        )
        return Mistake(f"{what}: the transfer of the result is timed, too", (*details, advice))
    start = next((h for h in reversed(before) if h.is_mark), None)
    launched = 0.0 if run is None else run.when + seen.longest[call] - duration
    queued = 0.0 if run is None else run.number - duration - launched
    if start is not None and start.what in CLOCKS and queued > 0:
        advice = "synchronize before the clock is started, after the warm-ups, too"
        what += f": started while the GPU still had {queued:.4g} ms of other work to do"
        return Mistake(what, (*details, advice))
    advice = f"want {duration:.4g} to {seen.longest[call]:.4g} ms: of this call and nothing else"
    return Mistake(what, (*details, advice))


def _around(
    seen: Seen, call: int
) -> tuple[Sequence[Happening], Happening | None, Sequence[Happening]]:
    """What happened from the call before this one on, the call itself, and what until the next."""
    runs = [i for i, happening in enumerate(seen.happenings) if happening.what == "run"]
    if call >= len(runs):
        return (), None, ()
    here, first, last = runs[call], runs[call - 1] + 1 if call else 0, len(seen.happenings)
    if call + 1 < len(runs):
        marks = [i for i in range(here, runs[call + 1]) if seen.happenings[i].is_mark]
        # of several the last starts the next trial
        last = marks[-1] if len(marks) > 1 else runs[call + 1]
    return seen.happenings[first:here], seen.happenings[here], seen.happenings[here + 1 : last]


def _told(seen: Seen, trial: int) -> str:
    """What happened in one trial, in the order of time."""
    before, run, after = _around(seen, seen.num_warmups + trial)
    if run is None:
        return ""
    starts = [happening for happening in before if happening.is_mark][-1:]
    zero = (starts or [run])[0].when
    told = [(run.when, "run() called"), (run.number, "the GPU is done with it")]
    for happening in (*starts, *after[:MAX_TOLD]):
        told += [(happening.when, _WORDS.get(happening.what, f"{happening.what} read"))]
    steps = "; ".join(f"{when - zero:.3f} {words}" for when, words in sorted(told))
    return f"what happened in trial {trial}, at ms: {steps}"


_WORDS = {
    "record": "event recorded",
    "synchronize": "waiting began",
    "transfer": "the result was asked for",
    "elapsed": "elapsed_time asked for",
}

CAUSES: tuple[Callable[[Seen], Mistake | None], ...] = (
    _in_other_units,
    _of_other_calls,
    _all_the_same,
    _without_a_clock,
    _of_one_trial,
)


def _made_up(seen: Seen) -> Mistake | None:
    """Times that no two readings around the call, and no two events, are apart."""
    between_events = [h.number for h in seen.happenings if h.what == "elapsed"]
    # two times since one event, too, are a time
    between_events += [abs(b - a) for a, b in itertools.pairwise(between_events)]
    for trial, got in enumerate(seen.returned):
        before, _, after = _around(seen, seen.num_warmups + trial)
        between_readings = [
            end.number - start.number
            for start in before
            for end in after
            if start.what in CLOCKS and start.what == end.what
        ]
        if not any(
            math.isclose(got, time, rel_tol=RTOL) for time in between_events + between_readings
        ):
            what = f"trial {trial}: {got:.6g} ms is not what your clock or events showed"
            return Mistake(what, (_told(seen, trial),))
    return None


def _judge_summary(times: Sequence[float], got: Any) -> Mistake | None:
    want = statistics.median(times)
    if is_number(got) and math.isclose(got, want, rel_tol=RTOL_SUMMARY):
        return None
    details = [f"summarize({[round(time, 3) for time in times]})"]
    known = {
        "the mean, which one slow trial moves": statistics.fmean(times),
        "the one in the middle of the list before it is sorted": times[len(times) // 2],
        "the smallest": min(times),
        "the lower of the two in the middle": statistics.median_low(times),
        "the upper of the two in the middle": statistics.median_high(times),
    }
    if is_number(got):
        details += [
            f"this is {what}"
            for what, value in known.items()
            if math.isclose(got, value, rel_tol=RTOL_SUMMARY)
        ][:1]
    return Mistake(f"got {shown(got)[:200]}, want the median, {want:.6g}", tuple(details))


def _judge_real(num_warmups: int, num_trials: int, log: Log) -> Mistake | None:
    """Matrix products on the real GPU: right is what physics and the clock on the wall allow."""
    for size in REAL_SIZES:
        one: Any = log.get(f"matmul_{size}")
        if not has_form(one, _REAL) or not all(map(is_number, (one["wall_ms"], *one["own_ms"]))):
            return Mistake("the log of the scenario is not of its form", verdict="protocol_error")
        returned: Any = one["returned"]
        mistake = _form(returned, one["n_runs"], num_warmups, num_trials)
        if mistake is not None:
            return mistake
        product = f"a product of two {size} x {size} matrices in float16"
        median, least_ms = statistics.median(returned), 2 * size**3 / MAX_FLOPS_PER_MS
        if median < least_ms:
            advice = (
                f"no GPU takes less than {least_ms:.3g} ms: wait for it, and return milliseconds"
            )
            return Mistake(f"got {median:.3g} ms for {product}", (advice,))
        if sum(returned) > one["wall_ms"]:
            what = f"got {sum(returned):.4g} ms for all trials of {product}"
            return Mistake(what, (f"benchmark as a whole took {one['wall_ms']:.4g} ms",))
        fast_ms, slow_ms = sorted(one["own_ms"])
        if slow_ms < MAX_OWN_RATIO * fast_ms and median < LEAST_OF_OWN * fast_ms:
            advice = f"events on this GPU show {fast_ms:.3g} ms, before your benchmark and after it"
            return Mistake(f"got {median:.3g} ms for {product}", (advice, "wait for the GPU"))
    return None


def _case(
    name: str, why: str, *, num_warmups: int, num_trials: int, timeout_s: float = 10, **more: float
) -> Case:
    scalars = {"num_warmups": num_warmups, "num_trials": num_trials, **more}
    return scenario_case(name, why=why, scalars=scalars, timeout_s=timeout_s)


def _summary(name: str, why: str, n: int, outlier: float = 1.0) -> Case:
    return scenario_case(name, why=why, scalars={"n": n, "outlier": outlier}, timeout_s=10)


CASES = (
    _case(
        "warm-up",
        "the first call compiles and takes far longer than the rest: it is no trial",
        num_warmups=3,
        num_trials=5,
    ),
    _case(
        "queue",
        "the warm-up is still in the GPU's queue when the host gets to the first trial",
        num_warmups=1,
        num_trials=3,
    ),
    _case(
        "busy",
        "other work keeps the GPU busy while the first calls are made",
        num_warmups=2,
        num_trials=4,
        pending_us=500_000,
    ),
    _case(
        "no-warm-up",
        "none is asked for and none is made, and the GPU is busy with other work",
        num_warmups=0,
        num_trials=4,
        pending_us=300_000,
    ),
    _case("one-trial", "a single trial is a list of one time", num_warmups=2, num_trials=1),
    _case(
        "outlier",
        "one trial takes ten times as long, and the list shows which",
        num_warmups=2,
        num_trials=10,
        outlier=10.0,
    ),
    _case(
        "many-trials",
        "as many warm-ups and trials as are asked for, none built in",
        num_warmups=10,
        num_trials=40,
    ),
    _summary("summarize-odd", "of an odd number of times the one in the middle, once sorted", 7),
    _summary("summarize-even", "of an even number the mean of the two in the middle", 8),
    _summary("summarize-one", "of one time that time", 1),
    _summary("summarize-outlier", "one slow trial moves a mean, and not a median", 5, outlier=50.0),
    _case(
        "matmul",
        "matrix products on the GPU of this machine; where there is none, on the modelled one",
        num_warmups=3,
        num_trials=10,
        timeout_s=60,
    ),
)

PROBLEM = scenario(
    name="benchmark",
    points=6,
    cases=CASES,
    make_inputs=make_inputs,
    judge=judge,
)
