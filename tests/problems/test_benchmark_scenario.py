"""The modelled GPU of the problem benchmark, and its judge: what is right in other ways, what is forged."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest
import torch

from grader import inputs
from grader.discover import REFERENCE, load_problem
from grader.scenarios import MAX_LOG_BYTES, Log, Mistake, plain

FOLDER = REFERENCE / "benchmark"
PROBLEM = load_problem("benchmark")
CASES = {case.id: case for case in PROBLEM.cases}
TIMED = [case for case in CASES if not case.startswith("summarize")]
HEAD = """
import time
import torch

def benchmark(run, *, num_warmups, num_trials):
    for _ in range(num_warmups):
        run()
    times_ms = []
"""

Write: TypeAlias = "Callable[[str], Path]"


def module(path: Path) -> ModuleType:
    """One file, loaded by itself."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


SCENARIO = module(FOLDER / "scenario.py")


@pytest.fixture(autouse=True)
def _without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case matmul takes a real GPU where it finds one; here it is the model that is tested."""
    monkeypatch.setattr(SCENARIO, "_on_a_real_gpu", list)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a submission whose trials are the given lines."""

    def written(body: str) -> Path:
        file = tmp_path / "submission.py"
        file.write_text(body)
        return file

    return written


def log_of(path: Path, case_id: str, seed: int) -> Log:
    """What the scenario tells of a submission."""
    arguments = inputs.draw(PROBLEM, CASES[case_id], seed)
    log: Log = plain(SCENARIO.run(module(path), case_id, dict(arguments)))
    return log


def judged(log: Log, case_id: str, seed: int) -> Mistake | None:
    """What the judge says of a log."""
    assert PROBLEM.judge is not None
    return PROBLEM.judge(CASES[case_id], inputs.draw(PROBLEM, CASES[case_id], seed), log)


def said(path: Path, case_id: str, seed: int = 1) -> str:
    """What the judge says of a submission, in full; "" if it is right."""
    mistake = judged(log_of(path, case_id, seed), case_id, seed)
    return "" if mistake is None else "\n".join([mistake.what, *mistake.details])


def by_clock(read: str, factor: str, more: str = "") -> str:
    """A submission that waits and reads a clock."""
    return (
        more
        + HEAD
        + f"""
    for _ in range(num_trials):
        torch.cuda.synchronize()
        start = {read}
        run()
        torch.cuda.synchronize()
        times_ms.append(({read} - start) * {factor})
    return times_ms
"""
    )


def by_events(wait: str, end: str = "events.append((start, stop))", more: str = "") -> str:
    """A submission that records events and waits in its own way."""
    return (
        HEAD
        + f"""
    events = []
    for _ in range(num_trials):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        {more or "pass"}
        start.record()
        run()
        stop.record()
        {wait}
        {end}
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) for start, stop in events]
"""
    )


def by_timeit(read: str) -> str:
    """A submission that leaves the clock to timeit, which is given ``once``."""
    return (
        "import timeit\n"
        + HEAD
        + f"""
    def once():
        run()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    return [1e3 * {read} for _ in range(num_trials)]
"""
    )


RIGHT = {
    "perf_counter": by_clock("time.perf_counter()", "1e3"),
    "nanoseconds": by_clock("time.perf_counter_ns()", "1e-6"),
    "time": by_clock("time.time()", "1e3"),
    "monotonic": by_clock("time.monotonic()", "1000"),
    "imported-by-name": by_clock("perf_counter()", "1e3", "from time import perf_counter\n"),
    "default-timer": by_clock("default_timer()", "1e3", "from timeit import default_timer\n"),
    "timeit": by_timeit("timeit.timeit(once, number=1)"),
    "timer": by_timeit("timeit.Timer(once).timeit(number=1)"),
    "repeat": by_timeit("timeit.repeat(once, number=1, repeat=1)[0]"),
    "repeat-all": by_timeit("0").replace(
        "return [1e3 * 0 for _ in range(num_trials)]",
        "return [1e3 * t for t in timeit.repeat(once, number=1, repeat=num_trials)]",
    ),
    "marks": by_events("torch.cuda.nvtx.range_pop()", more="torch.cuda.nvtx.range_push('trial')"),
    "accelerator": by_clock("time.perf_counter()", "1e3").replace(
        "torch.cuda.sync", "torch.accelerator.sync"
    ),
    "one-reading-between-trials": HEAD
    + """
    torch.cuda.synchronize()
    last = time.perf_counter()
    for _ in range(num_trials):
        run()
        torch.cuda.synchronize()
        now = time.perf_counter()
        times_ms.append(1e3 * (now - last))
        last = now
    return times_ms
""",
    "stream-waits": by_clock("time.perf_counter()", "1e3").replace(
        "torch.cuda.sync", "torch.cuda.current_stream().sync"
    ),
    "all-events-then-wait": by_events("pass"),
    "event-of-any-device": by_events("pass").replace("torch.cuda.Event(", "torch.Event('cuda', "),
    "event-waits": by_events("stop.synchronize()"),
    "asks-until-done": by_events("while not stop.query(): pass"),
    "sleeps-between": by_events("time.sleep(1)"),
    "prints-afterwards": by_events("torch.cuda.synchronize()")
    .replace("        run()\n        stop", "        y = run()\n        stop")
    .replace("    torch.cuda.synchronize()\n    return", "    print(y, y.item())\n    return"),
    "flushes-the-cache": by_events(
        "pass", more="torch.empty(1000, dtype=torch.int8, device='cuda').zero_()"
    ),
    "rounds": by_events("pass").replace("(stop) for", "(stop).__round__(2) for"),
    "on-a-stream": by_events("pass").replace(
        "    for _ in range(num_warmups)",
        "    stream = torch.cuda.Stream()\n"
        "    stream.wait_stream(torch.cuda.current_stream())\n"
        "    stream.__enter__()\n"
        "    for _ in range(num_warmups)",
    ),
    "clock-as-default": by_clock("clock()", "1e3").replace(
        "num_trials)", "num_trials, clock=time.perf_counter)", 1
    ),
    "clock-of-a-class": by_clock(
        "Timer.clock()", "1e3", "import time\nclass Timer:\n    clock = time.perf_counter\n"
    ),
    "event-of-a-table": by_events("pass", "events.append((start, stop))")
    .replace("torch.cuda.Event(", "MADE['event'](")
    .replace("def benchmark", "MADE = {'event': torch.cuda.Event}\n\ndef benchmark"),
    "event-by-position": by_events("pass").replace("enable_timing=True", "True, False"),
    "event-by-name": by_events("pass").replace(
        "enable_timing=True", "enable_timing=True, blocking=True, interprocess=False"
    ),
    "event-of-any-device-by-name": by_events("pass").replace(
        "torch.cuda.Event(", "torch.Event(device='cuda', blocking=False, "
    ),
    "recorded-by-name": by_events("stop.wait(stream=torch.cuda.current_stream(device=0))")
    .replace("start.record()", "start.record(stream=torch.cuda.current_stream(device='cuda'))")
    .replace("stop.record()", "torch.cuda.default_stream(device='cuda').record_event(event=stop)"),
    "elapsed-by-name": by_events("pass").replace("time(stop)", "time(end_event=stop)"),
    "device-by-name": by_clock("time.perf_counter()", "1e3")
    .replace("synchronize()", "synchronize(device='cuda')")
    .replace("    times_ms = []", "    torch.cuda.set_device(device=0)\n    times_ms = []"),
    "device-of-the-result": by_clock("time.perf_counter()", "1e3")
    .replace(
        "        run()\n        torch", "        y = run()\n        assert y.is_cuda\n        torch"
    )
    .replace("synchronize()\n        times", "synchronize(y.device)\n        times"),
    "device-of-the-block": by_events("pass").replace(
        "start.record()", "\n        with torch.cuda.device(device=0): start.record()"
    ),
    "on-a-named-stream": by_events("pass").replace(
        "    for _ in range(num_warmups)",
        "    torch.cuda.set_stream(stream=torch.cuda.Stream(device='cuda', priority=-1))\n"
        "    torch.cuda.current_stream().wait_stream(stream=torch.cuda.default_stream())\n"
        "    for _ in range(num_warmups)",
    ),
    "on-a-stream-of-a-block": by_events("pass")
    .replace(
        "    for _ in range(num_warmups)",
        "    stream = torch.cuda.Stream()\n"
        "    stream.wait_stream(torch.cuda.current_stream())\n"
        "    for _ in range(num_warmups)",
    )
    .replace(
        "        run()\n        stop.record()",
        "        with torch.cuda.stream(stream=stream):\n"
        "            run()\n"
        "        torch.cuda.current_stream().wait_stream(stream)\n"
        "        stop.record()",
    )
    .replace("        start.record()", "        torch.cuda.synchronize()\n        start.record()"),
    "properties": by_events(
        "pass",
        more="torch.cuda.get_device_properties(device=0).L2_cache_size;"
        " torch.cuda.get_device_name(device='cuda')",
    ),
    "accelerator-throughout": by_clock("time.perf_counter()", "1e3")
    .replace("torch.cuda.synchronize()", "torch.accelerator.current_stream().synchronize()")
    .replace(
        "    times_ms = []",
        "    assert torch.accelerator.current_accelerator(check_available=True).type == 'cuda'\n"
        "    times_ms = []",
    ),
    "times-since-one-event": HEAD
    + """
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(num_trials + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    marks[-1].synchronize()
    at = [marks[0].elapsed_time(mark) for mark in marks]
    return [end - begin for begin, end in zip(at, at[1:])]
""",
    "float32": by_clock("time.perf_counter()", "1e3").replace(
        "return times_ms", "return torch.tensor(times_ms).tolist()"
    ),
    "reads-much": by_clock("time.perf_counter()", "1e3").replace(
        "        run()",
        "        for _ in range(300): time.perf_counter(), time.time()\n"
        "        start = time.perf_counter()\n        run()",
    ),
    "tuple": by_events("pass").replace("return [", "return tuple(").replace("events]", "events)"),
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in RIGHT.items()])
def test_other_right_ways_pass(body: str, write: Write) -> None:
    """Clocks and events, whichever way they are waited for, in every case and for any draw."""
    path = write(body)

    for case in TIMED:
        for seed in range(3):
            assert said(path, case, seed) == ""


@pytest.mark.parametrize(
    ("stem", "case", "words"),
    [
        ("no_warm_up", "warm-up", "no warm-up: the first trial compiles"),
        ("one_warm_up_always", "warm-up", "the number of calls is 6, want 8"),
        ("no_synchronize_before_start", "queue", "started while the GPU still had"),
        ("no_synchronize_before_start", "busy", "started while the GPU still had"),
        ("no_synchronize_before_start", "no-warm-up", "started while the GPU still had"),
        ("no_synchronize_before_stop", "queue", "stopped before the GPU was done"),
        ("times_the_transfer", "warm-up", "the transfer of the result is timed, too"),
        ("waits_with_item", "warm-up", "the transfer of the result is timed, too"),
        ("one_trial", "warm-up", "the number of times is 1, want 5"),
        ("mean_of_all", "outlier", "a mean hides the trial"),
        ("seconds", "one-trial", "these are seconds, want milliseconds"),
        ("times_warm_ups_too", "many-trials", "the warm-ups are timed, too"),
        ("sorted_times", "outlier", "not in the order of the trials"),
        ("clock_of_the_process", "warm-up", "stand still while Python waits"),
        ("one_number", "warm-up", "want a list of 5 times in ms"),
        ("summarize_mean", "summarize-outlier", "this is the mean, which one slow trial moves"),
        ("summarize_unsorted", "summarize-odd", "before it is sorted"),
    ],
)
def test_each_mistake_is_named(stem: str, case: str, words: str) -> None:
    """Not only is a wrong time seen, the message says which mistake made it, for any draw."""
    for seed in range(1, 6):
        assert words in said(FOLDER / "wrong" / f"{stem}.py", case, seed)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            by_timeit("timeit.timeit(run, number=1)"),
            "stopped before the GPU was done",
        ),
        (by_timeit("timeit.timeit(once, number=1)").replace("1e3", "1"), "these are seconds"),
        (by_clock("time.perf_counter()", "1e6"), "these are microseconds"),
        (by_clock("time.perf_counter_ns()", "1"), "these are nanoseconds"),
        (by_clock("0.001", "1e3"), "the time of trial 0 is 0.0, want a positive number of ms"),
        (HEAD + "    return [run() for _ in range(num_trials)]", "trial 0 is a Result: tensor(["),
        (HEAD + "    return [(run(), 2.5 + i)[1] for i in range(num_trials)]", "no clock was read"),
        (HEAD + "    return [float('nan')] * num_trials", "trial 0 is nan, want"),
        (HEAD + "    return [10**400] * num_trials", "want a positive number of ms"),
        (HEAD + "    return [True] * num_trials", "trial 0 is True, want"),
        (HEAD, "got None, want a list of 5 times in ms"),
    ],
    ids=[
        "timeit-no-wait",
        "timeit-s",
        "us",
        "ns",
        "zero",
        "results",
        "no-clock",
        "nan",
        "digits",
        "bools",
        "nothing",
    ],
)
def test_what_else_comes_back_is_explained(body: str, words: str, write: Write) -> None:
    """Whatever a benchmark returns, the message says what is wrong with it."""
    assert words in said(write(body), "warm-up")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (by_events("events.append(start.elapsed_time(stop))"), "has not passed both events yet"),
        (
            by_events("pass").replace("enable_timing=True", ""),
            "make both events with enable_timing",
        ),
        (by_events("pass").replace("stop.record()", "pass"), "record\\(\\) both events first"),
        (HEAD + "    while True: run()", "called over 1000 times"),
    ],
    ids=["too-early", "not-timed", "not-recorded", "endless"],
)
def test_the_model_raises_as_a_gpu_would(body: str, words: str, write: Write) -> None:
    """What cannot be answered raises in the student's line, and torch and time are as before."""
    before = (time.perf_counter, torch.cuda.Event, torch.cuda.synchronize)

    with pytest.raises(RuntimeError, match=words):
        said(write(body), "warm-up")

    assert before == (time.perf_counter, torch.cuda.Event, torch.cuda.synchronize)


def test_times_found_in_the_process_are_not_taken(write: Write) -> None:
    """Who returns the times that were drawn, found in a frame, has measured nothing."""
    body = HEAD + (
        "    import sys\n"
        "    drawn = sys._getframe(1).f_locals['arguments']\n"
        "    for _ in range(num_trials):\n"
        "        start = time.perf_counter()\n"
        "        run()\n"
        "        time.perf_counter()\n"
        "    n = range(num_warmups, num_warmups + num_trials)\n"
        "    return [drawn[f'duration_us.{i}'] / 1000 for i in n]\n"
    )

    assert "is not what your clock or events showed" in said(write(body), "warm-up")


FLOOD = "for _ in range(3000): time.perf_counter(), time.time(), start.record()"


@pytest.mark.parametrize("elapsed", ["", "; [start.elapsed_time(start) for _ in range(50)]"])
def test_a_flood_of_readings_is_cut(elapsed: str, write: Write) -> None:
    """A log keeps its size; what was measured right stays right."""
    body = by_events(f"torch.cuda.synchronize(){elapsed}", more=FLOOD)
    log = log_of(write(body), "many-trials", 1)

    assert len(log["records"]) <= 800
    assert len(json.dumps(log)) < MAX_LOG_BYTES
    assert sum(record[0] == "run" for record in log["records"]) == 50
    assert judged(log, "many-trials", 1) is None


def test_a_flood_of_readings_hides_nothing(write: Write) -> None:
    """Times that were found, not measured, are so beside any number of readings."""
    body = HEAD + (
        "    import sys\n"
        "    drawn = sys._getframe(1).f_locals['arguments']\n"
        "    for _ in range(num_trials):\n"
        "        for _ in range(800): time.perf_counter()\n"
        "        run()\n"
        "    n = range(num_warmups, num_warmups + num_trials)\n"
        "    return [drawn[f'duration_us.{i}'] / 1000 for i in n]\n"
    )

    assert "is not what your clock or events showed" in said(write(body), "many-trials")


def test_a_log_of_far_too_many_calls_keeps_its_size(write: Write) -> None:
    """Who measures for a tenth of a second is told how many calls were asked for."""
    body = by_events("pass").replace("range(num_trials)", "range(900)")
    log = log_of(write(body), "warm-up", 1)
    mistake = judged(log, "warm-up", 1)

    assert len(json.dumps(log)) < MAX_LOG_BYTES
    assert mistake is not None
    assert mistake.what == "the number of times is 900, want 5"


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("summarize")])
@pytest.mark.parametrize(
    "value",
    [
        "torch.tensor(times_ms).quantile(0.5)",
        "torch.tensor(times_ms, dtype=torch.float64).quantile(0.5).item()",
        "sum(torch.tensor(times_ms + times_ms).sort().values[len(times_ms) - 1 :][:2]) / 2",
    ],
    ids=["float32", "float64", "sorted"],
)
def test_a_median_in_float32_is_right(case: str, value: str, write: Write) -> None:
    """As PyTorch has it; the lower of the two in the middle, its own median, is not."""
    head = "import torch\n\ndef benchmark(): pass\n\ndef summarize(times_ms):\n    return "

    for seed in range(3):
        assert said(write(head + value), case, seed) == ""
    lower = said(write(head + "torch.tensor(times_ms).median()"), case)
    assert bool(lower) == (case in {"summarize-even", "summarize-hidden"})


def test_the_submission_that_was_loaded_is_as_before(write: Write) -> None:
    """It is imported anew for the model; the other keeps the clocks of this machine."""
    path = write(RIGHT["imported-by-name"])
    before = module(path)
    SCENARIO.run(before, "warm-up", dict(inputs.draw(PROBLEM, CASES["warm-up"], 1)))

    assert before.perf_counter is time.perf_counter
    assert before.__name__ not in sys.modules


@pytest.mark.parametrize("case", ["warm-up", "no-warm-up", "matmul", "summarize-odd"])
def test_no_forged_log_is_a_fault_of_the_grader(case: str) -> None:
    """Logs with any part changed, of right and wrong submissions, are judged without an exception."""
    rng = random.Random(1)
    odd: list[Any] = [None, True, -1, 0, 1e300, 10**400, "run", [], [[]], {}, [1, 2, 3]]
    stems = ("no_synchronize_before_stop", "no_warm_up", "times_the_transfer")
    logs = [log_of(FOLDER / "wrong" / f"{stem}.py", case, 1) for stem in stems]
    logs += [log_of(FOLDER / "solution.py", case, 1)]
    logs += [{}, {"records": []}, {"matmul_2048": 1}]
    real = {"returned": [1.0] * 10, "n_runs": 13, "wall_ms": 1, "own_ms": [1.0, 1.0]}
    logs += [{"matmul_2048": real, "matmul_8192": real}]

    verdicts = set()
    for _ in range(800):
        log = json.loads(json.dumps(rng.choice(logs)))
        for _ in range(rng.randint(1, 3)):
            change(log, rng, odd)
        mistake = judged(log, case, 1)
        verdicts.add("passed" if mistake is None else mistake.verdict)

    assert "wrong_value" in verdicts
    assert verdicts <= {"wrong_value", "wrong_type", "protocol_error", "passed"}


def change(value: Any, rng: random.Random, odd: list[Any]) -> None:
    """Replace something within a log."""
    while isinstance(value, dict | list) and value:
        key = rng.choice([*(value if isinstance(value, dict) else range(len(value)))])
        if rng.random() < 0.5 or not isinstance(value[key], dict | list):
            value[key] = rng.choice(odd)
            return
        value = value[key]


@pytest.mark.parametrize(
    ("small_ms", "large_ms", "own_ms", "words"),
    [
        (0.03, 1.5, (1.5, 1.6), ""),
        # a slow host and its clock, or others on the GPU: the small product takes as long
        (0.9, 1.5, (1.5, 1.5), ""),
        (1.5, 1.5, (1.5, 1.5), ""),
        (0.0035, 0.76, (1.5, 1.5), ""),
        (0.0034, 1.5, (1.5, 1.5), "no GPU takes less than"),
        (0.03, 0.21, (1.5, 1.5), "no GPU takes less than 0.22 ms"),
        (0.03, 0.74, (1.5, 1.7), "events on this GPU show 1.5 ms"),
        # others came or went: nothing can be said
        (0.03, 0.74, (1.5, 1.9), ""),
        (0.03, 0.74, (9.0, 1.5), ""),
        (0.03, 1.5, (0.5, 0.5), ""),
        (0.02, 0.02, (1.5, 1.5), "no GPU takes less than"),
        (0.00003, 0.0015, (1.5, 1.5), "no GPU takes less than"),
        (2.4, 2.4, (1.5, 1.5), ""),
        (2.6, 2.6, (1.5, 1.5), "benchmark as a whole took"),
        (30.0, 1500.0, (1.5, 1.5), "benchmark as a whole took"),
    ],
)
def test_times_of_a_real_gpu(
    small_ms: float, large_ms: float, own_ms: tuple[float, float], words: str
) -> None:
    """Right are times that an H200 shows, busy or not; too short and too long are explained.

    At 5e12 operations a millisecond the products take 0.0034 and 0.22 ms.
    """
    took_ms = {2048: (small_ms, (0.001, 0.001)), 8192: (large_ms, own_ms)}
    log: Log = {
        f"matmul_{size}": {"returned": [got] * 10, "n_runs": 13, "wall_ms": 25.0, "own_ms": [*own]}
        for size, (got, own) in took_ms.items()
    }
    mistake = judged(log, "matmul", 1)

    assert words in ("" if mistake is None else "\n".join([mistake.what, *mistake.details]))
    assert (mistake is None) == (not words)
