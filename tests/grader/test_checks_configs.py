"""grader.checks.configs: every config of @triton.autotune is judged once."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import discover
from grader.checks import Trial, configs
from grader.grading import Request, opened
from grader.scorecard import Check, Verdict
from grader.seen import AutotunedSeen

# 917 elements; {THIRD} is the factor of the third config, the first two have 2
TUNED = """
import torch
import triton
import triton.language as tl


@triton.autotune(
    [
        triton.Config({"BLOCK_SIZE": 64, "FACTOR": 1.0}, num_warps=2),
        triton.Config({"BLOCK_SIZE": 128, "FACTOR": 1.0}),
        triton.Config({"BLOCK_SIZE": 256, "FACTOR": {FACTOR}}, num_warps=8),
    ],
    key=["n_elements"],
)
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr, FACTOR: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements + {BEYOND} * (BLOCK_SIZE // 256)
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, FACTOR * total, mask=mask)


def vector_add(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)
    add_kernel[grid](x, y, out, x.numel())
    return out
"""
(VECTOR_ADD,) = discover.load_problems(["vector_add"])


def verdicts(folder: Path, text: str) -> dict[tuple[str, str], Check]:
    """The checks of all public cases, by group and case."""
    (folder / "vector_add.py").write_text(text)
    with opened(Request(folder / "vector_add.py", device="cpu", seed=1)) as grading:
        return {
            (trial.group, trial.case.id): grading.judge(trial)
            for trial in grading.trials()
            if trial.case.visibility == "public"
        }


def test_a_wrong_config_is_found_in_one_case(tmp_path: Path) -> None:
    """Which one ran is said; all other cases, and the other group, pass with the first config."""
    checks = verdicts(tmp_path, TUNED.replace("{FACTOR}", "1.5").replace("{BEYOND}", "0"))

    wrong = {place for place, check in checks.items() if check.verdict is not Verdict.PASSED}
    place = ("forward", configs.tuned_case(VECTOR_ADD, "forward").id)
    assert wrong == {place}
    assert checks[place].verdict is Verdict.WRONG_VALUE
    assert "add_kernel ran with config 3 of 3" in checks[place].cause
    assert "BLOCK_SIZE: 256, FACTOR: 1.5, num_warps: 8" in checks[place].cause


def test_a_config_that_leaves_its_tensor_is_found(tmp_path: Path) -> None:
    """In the memory group; what it returns is right."""
    checks = verdicts(tmp_path, TUNED.replace("{FACTOR}", "1.0").replace("{BEYOND}", "1"))

    wrong = {place: c.verdict for place, c in checks.items() if c.verdict is not Verdict.PASSED}
    place = ("memory", configs.tuned_case(VECTOR_ADD, "memory").id)
    assert wrong == {place: Verdict.OUT_OF_BOUNDS}
    assert "config 3 of 3" in checks[place].cause


def test_configs_that_agree_pass(tmp_path: Path) -> None:
    """The near miss."""
    checks = verdicts(tmp_path, TUNED.replace("{FACTOR}", "1.0").replace("{BEYOND}", "0"))

    assert {check.verdict for check in checks.values()} == {Verdict.PASSED}


@pytest.mark.parametrize(
    ("n_configs", "want"),
    [(1, [0]), (3, [0, 1, 2]), (64, list(range(64))), (128, list(range(0, 128, 2)))],
)
def test_so_many_configs_are_tried(n_configs: int, want: list[int]) -> None:
    """All up to 64; of more, 64 evenly spread, always the same."""
    assert configs.numbers(n_configs) == want


def test_a_claim_of_endless_configs_costs_no_time() -> None:
    """What the student's process says is only believed up to the limit."""
    assert len(configs.numbers(10**30)) == 64


def tried(outcomes: dict[int, Verdict], n_configs: int) -> tuple[Check, list[int]]:
    """Judge the tuned case with these verdicts of configs (passed where none is given)."""
    case = configs.tuned_case(VECTOR_ADD, "forward")
    trial = Trial(VECTOR_ADD, case, "forward")
    seen = [AutotunedSeen(kernel="k", n_configs=n_configs, configs=("a", "b"))]
    ran: list[int] = []

    def judge(number: int) -> tuple[Check, list[AutotunedSeen]]:
        ran.append(number)
        verdict = outcomes.get(number, Verdict.PASSED)
        cause = "" if verdict is Verdict.PASSED else "it failed"
        return Check(verdict=verdict, cause=cause), seen

    return configs.every_config(trial, judge), ran


def test_the_first_config_that_fails_decides() -> None:
    """Later ones are not run."""
    check, ran = tried({2: Verdict.CRASHED, 3: Verdict.WRONG_VALUE}, n_configs=5)

    assert (check.verdict, ran) == (Verdict.CRASHED, [0, 1, 2])
    assert check.cause.startswith("it failed\n  k ran with config 3 of 5\n")


def test_what_the_simulator_cannot_run_is_passed_over() -> None:
    """As long as the first config runs; a failure after it still counts."""
    check, ran = tried({1: Verdict.NOT_CHECKABLE, 3: Verdict.WRONG_VALUE}, n_configs=5)

    assert (check.verdict, ran) == (Verdict.WRONG_VALUE, [0, 1, 2, 3])
    assert tried({1: Verdict.NOT_CHECKABLE}, n_configs=2)[0].verdict is Verdict.PASSED
    assert tried({0: Verdict.NOT_CHECKABLE}, n_configs=2) == (
        Check(verdict=Verdict.NOT_CHECKABLE, cause="it failed"),
        [0],
    )
