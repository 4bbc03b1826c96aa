"""Every config of @triton.autotune is judged once, in one case of each group.

The simulator takes the first config everywhere else. On a GPU tuning may choose any of them, so one
that computes something else is a mistake that would show by chance only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader import verify
from grader.checks.trial import Trial
from grader.scorecard import Check, Verdict
from grader.seen import AutotunedSeen
from grader.spec import Case, Group, Problem

MAX_CONFIGS = 64
# a smaller case fits into one block of any config, so that none can show a mistake at its borders
MIN_BYTES = 16 * 1024

Judge = Callable[[int], tuple[Check, Sequence[AutotunedSeen]]]
"""The number of a config to its check and to what there was to choose from."""


def every_config(trial: Trial, judge: Judge) -> Check:
    """The check of the first config, or of the first one that fails where others are tried.

    Configs beyond ``MAX_CONFIGS`` are left out evenly, so that the same ones run each time. What the
    simulator cannot run is passed over, as long as it can run the first.
    """
    check, autotuned = judge(0)
    if check.verdict is not Verdict.PASSED or trial.case != tuned_case(trial.problem, trial.group):
        return check
    n_configs = max((seen.n_configs for seen in autotuned), default=1)
    for number in numbers(n_configs)[1:]:
        tried, _ = judge(number)
        if tried.verdict not in {Verdict.PASSED, Verdict.NOT_CHECKABLE}:
            return _named(tried, number, autotuned)
    return check


def tuned_case(problem: Problem, group: Group) -> Case:
    """The smallest case students see that moves at least ``MIN_BYTES``; else the largest."""
    cases = problem.cases_in(group)
    shown = [case for case in cases if case.visibility == "public"] or list(cases)
    shown.sort(key=lambda case: problem.min_bytes(case, "forward"))
    large = [case for case in shown if problem.min_bytes(case, "forward") >= MIN_BYTES]
    return large[0] if large else shown[-1]


def numbers(n_configs: int) -> list[int]:
    """Which of so many configs to try: all up to ``MAX_CONFIGS``, else so many, evenly spread."""
    if n_configs <= MAX_CONFIGS:
        return list(range(n_configs))
    return [i * n_configs // MAX_CONFIGS for i in range(MAX_CONFIGS)]


def _named(check: Check, number: int, autotuned: Sequence[AutotunedSeen]) -> Check:
    """The check with the configs that ran, of each kernel that has several."""
    lines = []
    for seen in autotuned:
        at = number % seen.n_configs
        text = f": {seen.configs[at]}" if at < len(seen.configs) else ""
        lines.append(f"{seen.kernel} ran with config {at + 1} of {seen.n_configs}{text}")
    lines.append("the first config passes, but on a GPU autotune may choose any: all must agree")
    return verify.with_lines(check, *lines)
