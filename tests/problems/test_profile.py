"""What profile takes and refuses beyond its known mistakes: other right ways, GPU rows, odd logs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from grader import inputs
from grader.discover import load_problem
from grader.grading import Request, opened
from grader.scenarios import Log, Mistake
from grader.scorecard import Verdict
from grader.spec import Inputs

PROBLEM = load_problem("profile")
CASES = {case.id: case for case in PROBLEM.cases}
SEED = 3

HEAD = """
import torch


def told(events):
    rows = [row for row in events if row.key.startswith("aten::")]
    rows.sort(key=lambda row: -row.self_cpu_time_total - row.self_device_time_total)
    return {r.key: [r.count, r.self_cpu_time_total, r.self_device_time_total] for r in rows}


"""
PROFILED = """
def profile(run):
    run()
    with torch.profiler.profile() as prof:
        run()
    return """
SCHEDULE = """
def profile(run):
    plan = torch.profiler.schedule(wait=1, warmup=1, active=1)
    with torch.profiler.profile(schedule=plan, with_stack=True) as prof:
        for _ in range(3):
            run()
            prof.step()
    return told(prof.key_averages())
"""
CYCLES = """
def profile(run):
    kept = []
    plan = torch.profiler.schedule(wait=0, warmup=1, active=1)
    with torch.profiler.profile(
        schedule=plan, on_trace_ready=lambda prof: kept.append(told(prof.key_averages()))
    ) as prof:
        for _ in range(CALLS):
            run()
            prof.step()
    return kept[WHICH]
"""
AUTOGRAD = """
def profile(run):
    for _ in range(5):
        run()
    with torch.autograd.profiler.profile() as prof:
        run()
    return told(prof.key_averages())
"""
MEAN = """
def profile(run):
    run()
    with torch.profiler.profile() as prof:
        for _ in range(5):
            run()
    sums = told(prof.key_averages())
    return {name: (n // 5, cpu / 5, gpu / 5) for name, (n, cpu, gpu) in sums.items()}
"""
START_STOP = """
def profile(run):
    prof = torch.profiler.profile()
    run()
    prof.start()
    run()
    prof.stop()
    return told(prof.key_averages())
"""


def checked(text: str, folder: Path, *cases: str) -> dict[str, tuple[Verdict, str]]:
    """Verdict and cause by case of a submission in a process of its own."""
    file = folder / "profile.py"
    file.write_text(HEAD + text)
    with opened(Request(file, ("profile",), device="cpu", seed=SEED)) as grading:
        trials = [t for t in grading.trials() if not cases or t.case.id in cases]
        checks = {trial.case.id: grading.judge(trial) for trial in trials}
    return {case: (check.verdict, check.cause) for case, check in checks.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SCHEDULE, id="schedule"),
        # what the schedule ends on leaving is empty
        pytest.param(
            CYCLES.replace("CALLS", "2").replace("WHICH", "0"), id="schedule-and-an-empty-one"
        ),
        pytest.param(CYCLES.replace("CALLS", "6").replace("WHICH", "1"), id="second-of-three"),
        pytest.param(AUTOGRAD.replace("range(5)", "range(150)"), id="many-calls-before"),
        pytest.param(AUTOGRAD, id="autograd-profiler"),
        pytest.param(START_STOP, id="start-and-stop"),
        pytest.param(MEAN, id="mean-of-five"),
    ],
)
def test_other_right_ways_pass(text: str, tmp_path: Path) -> None:
    """Every profiler of torch may be used, with as many calls outside of it as one likes."""
    got = checked(text, tmp_path)

    passing = {Verdict.PASSED, Verdict.NOT_CHECKABLE}
    assert {case: cause for case, (verdict, cause) in got.items() if verdict not in passing} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        (
            "def profile(run):\n    run()\n    return {}\n",
            Verdict.WRONG_VALUE,
            "no profile was made",
        ),
        (
            AUTOGRAD.replace("profile() as", "profile(enabled=False) as").replace(
                "told(prof.key_averages())", "{}"
            ),
            Verdict.WRONG_VALUE,
            "no profile was made",
        ),
        (
            "def profile(run):\n    run()\n    with torch.profiler.profile():\n        return {}\n",
            Verdict.WRONG_VALUE,
            "run() was called once, and the profiler was on in none of the calls",
        ),
        (
            PROFILED + "prof.key_averages()\n",
            Verdict.WRONG_TYPE,
            "returned an EventList: ",
        ),
        (
            PROFILED + "{row.key: row for row in prof.key_averages()}\n",
            Verdict.WRONG_TYPE,
            "want (calls, cpu_us, gpu_us)",
        ),
        (
            PROFILED + "{i: (1, 0.0, 0.0) for i in range(9)}\n",
            Verdict.WRONG_TYPE,
            "a key is 0, want the name of an operator",
        ),
        (
            PROFILED + "{**told(prof.key_averages()), 'aten::square': (1, 0.0, 0.0)}\n",
            Verdict.WRONG_VALUE,
            "not in the profile that was made: aten::square",
        ),
        (
            "def profile(run):\n    with torch.profiler.profile() as prof:\n        run(1)\n",
            Verdict.CRASHED,
            "TypeError",
        ),
    ],
    ids=[
        "none",
        "not-enabled",
        "around-nothing",
        "rows",
        "row-values",
        "numbers-as-keys",
        "invented",
        "raises",
    ],
)
def test_odd_submissions_get_a_verdict(
    text: str, verdict: Verdict, said: str, tmp_path: Path
) -> None:
    """Whatever is returned, and however it is profiled, the check says what is wrong."""
    got = checked(text, tmp_path, "gelu-builtin")["gelu-builtin"]

    assert got[0] is verdict
    assert said in got[1]


def arguments_of(case: str) -> Inputs:
    """What a case is run with."""
    return inputs.draw(PROBLEM, CASES[case], SEED)


def judged(case: str, log: Log) -> Mistake | None:
    """What the judge says."""
    assert PROBLEM.judge is not None
    return PROBLEM.judge(CASES[case], arguments_of(case), log)


def on_gpu() -> Log:
    """A log of matmul-gpu as it must be: calls by the drawn repetitions, kernels in aten::mm."""
    n = int(arguments_of("matmul-gpu")["repeats"]) + int(arguments_of("matmul-gpu")["more"])
    rows = [("aten::mm", n, 30.0, 30.0, 80.0), ("aten::matmul", n, 9.0, 39.0, 0.0)]
    keys = ("name", "calls", "cpu_us", "total_us", "gpu_us")
    return {
        "n_runs": 2,
        "n_profiled": 1,
        "first_was_profiled": False,
        "n_profiles": 1,
        "profiles": [[dict(zip(keys, row, strict=True)) for row in rows]],
        "is_dict": True,
        "items": [[name, [n, cpu_us, gpu_us]] for name, n, cpu_us, _, gpu_us in rows],
        "other": None,
    }


def test_a_profile_of_kernels_passes() -> None:
    """A kernel's time stands with the operator that started it."""
    assert judged("matmul-gpu", on_gpu()) is None


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("items", 1, 1, 2), 80.0, "gpu_us of aten::matmul: got 80, want 0"),
        (("items", 0, 1, 2), 160.0, "gpu_us of aten::mm: got 160, want 80"),
        (("items", 0, 0), "gemm_kernel", "no operators: gemm_kernel"),
        (("items", 1), ["aten::mm", [1, 9.0, 0.0]], "calls of aten::matmul: got 0, want"),
        (("items", 0, 1), [1.0, 30.0, 80.0], "aten::mm: got [1.0, 30.0, 80.0], want (calls,"),
        (("items", 0, 1), [1, 30.0], "aten::mm: got [1, 30.0], want (calls,"),
        (
            ("items", 0, 1, 1),
            10**400,
            "aten::mm: got [",
        ),
        (("n_profiled",), 0, "run() was called 2 times, and the profiler was on in none"),
        (("n_profiles",), 0, "no profile was made"),
        (("profiles",), [], "not in the profile that was made: aten::mm, aten::matmul"),
        (("profiles", 0, 0, "calls"), "2", "not of its form"),
        (("items", 0), [], "not of its form"),
        (("items", 0), ["aten::mm", [1, 2.0, 3.0], 4], "not of its form"),
        (("items", 0), "aten::mm", "not of its form"),
    ],
)
def test_each_part_of_a_log_is_judged(at: tuple[Any, ...], value: object, said: str) -> None:
    """One thing that is not as it must be is found and named."""
    log = on_gpu()
    place: Any = log
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = copy.deepcopy(value)

    mistake = judged("matmul-gpu", log)

    assert mistake is not None
    assert said in mistake.what


def test_kernels_that_were_not_recorded_are_named() -> None:
    """Without ProfilerActivity.CUDA no row has time on the GPU."""
    log = on_gpu()
    for row in log["profiles"][0]:
        row["gpu_us"] = 0.0
    for _, values in log["items"]:
        values[2] = 0.0

    mistake = judged("matmul-gpu", log)

    assert mistake is not None
    assert mistake.what == "the profile has no time on the GPU"
    assert "ProfilerActivity.CUDA" in mistake.details[0]


def test_counts_are_those_of_the_course_notes() -> None:
    """GeLU by its formula: 6 mul, 2 add, 1 tanh; the built-in: 1 gelu. One too many is found."""
    counts = {"aten::mul": 6, "aten::add": 2, "aten::tanh": 1}

    def log(counts: dict[str, int]) -> Log:
        rows = [
            {"name": name, "calls": n, "cpu_us": 1.0, "total_us": 1.0, "gpu_us": 0.0}
            for name, n in counts.items()
        ]
        items = [[name, [n, 1.0, 0.0]] for name, n in counts.items()]
        return {**on_gpu(), "profiles": [rows], "items": items}

    assert judged("gelu-formula", log(counts)) is None
    assert judged("gelu-builtin", log({"aten::gelu": 1})) is None
    mistake = judged("gelu-formula", log({**counts, "aten::mul": 7}))
    assert mistake is not None
    assert mistake.what == "calls of aten::mul: got 7, want 6"


def timed(case: str, times: dict[str, float]) -> Log:
    """A log of one of the cases softmax or matmul, with made-up times."""
    arguments = arguments_of(case)
    n = int(arguments["repeats"]) + (int(arguments["more"]) if case.startswith("matmul") else 0)
    rows = [
        {"name": name, "calls": n, "cpu_us": us, "total_us": us, "gpu_us": 0.0}
        for name, us in times.items()
    ]
    items = [[name, [n, us, 0.0]] for name, us in times.items()]
    return {**on_gpu(), "profiles": [rows], "items": items}


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"aten::_softmax": 90.0, "aten::softmax": 9.0}, None),
        ({"aten::_softmax": 9.0, "aten::softmax": 9.0}, None),
        (
            {"aten::softmax": 9.0, "aten::_softmax": 90.0},
            "aten::softmax (9 us) stands before aten::_softmax (90 us)",
        ),
    ],
)
def test_what_took_longest_stands_first(times: dict[str, float], said: str | None) -> None:
    """In whichever order the operators were called; where only names count, any order will do."""
    mistake = judged("softmax-order", timed("softmax-order", times))

    assert (None if mistake is None else mistake.what) == said
    assert judged("softmax-nested", timed("softmax-nested", times)) is None


@pytest.mark.parametrize(
    ("name", "cpu_us", "is_right"),
    [
        ("aten::mm", 91.0, True),
        ("aten::mm", 90.0, True),
        ("aten::mm", 92.0, False),
        ("aten::matmul", 9.0, True),
        ("aten::matmul", 8.0, False),
    ],
)
def test_whole_microseconds_are_right(name: str, cpu_us: float, is_right: bool) -> None:
    """90.6 may be told as 91 or cut to 90; two units more or less are another time."""
    log = timed("matmul-time", {"aten::mm": 90.6, "aten::matmul": 9.4})
    (values,) = (values for at, values in log["items"] if at == name)
    values[1] = cpu_us

    assert (judged("matmul-time", log) is None) == is_right


@pytest.mark.parametrize(
    ("divided_by", "said"),
    [
        (4, None),
        (1, "that is the time of all 4 calls of run()"),
        (2, "your times add up to"),
    ],
)
def test_a_mean_over_several_calls_is_right(divided_by: int, said: str | None) -> None:
    """A profile of four calls holds four times each; counts and times are told of one."""
    log = timed("matmul-time", {"aten::mm": 360.0, "aten::matmul": 36.0})
    log["n_profiled"] = 4
    for row in log["profiles"][0]:
        row["calls"] *= 4
    for _, values in log["items"]:
        values[1] /= divided_by

    mistake = judged("matmul-time", log)

    if said is None:
        assert mistake is None
    else:
        assert mistake is not None
        assert said in mistake.details[0]


def test_a_forged_number_of_calls_is_no_fault_of_the_grader() -> None:
    """No float holds it."""
    log = timed("matmul-time", {"aten::mm": 360.0, "aten::matmul": 36.0})
    for row in log["profiles"][0]:
        row["calls"] = 10**400

    assert judged("matmul-time", log) is not None


def test_any_profile_that_was_made_may_be_returned() -> None:
    """Of three, the last one empty and left out of the log; a mistake is told beside its own."""
    early, late = on_gpu(), on_gpu()
    for row in early["profiles"][0]:
        row["gpu_us"] *= 2
    both = {
        **late,
        "n_profiled": 2,
        "n_profiles": 3,
        "profiles": [*early["profiles"], *late["profiles"]],
    }

    assert judged("matmul-gpu", both) is None
    assert judged("matmul-gpu", {**both, "profiles": both["profiles"][::-1]}) is None
    both["items"][0][1][2] = 99.0
    mistake = judged("matmul-gpu", both)
    assert mistake is not None
    assert mistake.what == "gpu_us of aten::mm: got 99, want 80"


def test_gpu_cases_are_not_checkable_without_one() -> None:
    """They and no others, and only on a CPU."""
    lacking = {name for name, case in CASES.items() if PROBLEM.not_checkable(case, "cpu")}

    assert lacking == {"gelu-gpu", "matmul-gpu"}
    assert not any(PROBLEM.not_checkable(case, "cuda") for case in PROBLEM.cases)
