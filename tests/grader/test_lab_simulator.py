"""`lab simulator`: which case, how times add up, and that differing values are told."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from grader import discover
from grader.commands import lab
from grader.lab import simulator as speed
from grader.lab.simulator import KernelSpeed
from tests.grader.course import ROOT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: it makes Triton interpret."""
    command = [sys.executable, "-m", "grader", "lab", "simulator", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def test_the_largest_public_case() -> None:
    """Hidden cases and bfloat16, which Triton's interpreter gets wrong, do not count."""
    problem = discover.load_problem("vector_add")
    small = replace(problem.cases[0], dims={"n": 10}, dtype="float32", visibility="public")
    cases = (
        small,
        replace(small, dims={"n": 30}, dtype="float16"),
        replace(small, dims={"n": 90}, dtype="bfloat16"),
        replace(small, dims={"n": 99}, visibility="hidden"),
        replace(small, dims={"n": 20}),
    )
    assert speed.largest_case(replace(problem, cases=cases)) is cases[1]


def test_times_of_a_kernel_are_the_best_of_each_launch_added_up() -> None:
    """The second round's first launch and the first round's second are the best ones."""
    rounds = {
        "checked": [[("k", 5.0), ("k", 1.0), ("m", 8.0)], [("k", 2.0), ("k", 4.0), ("m", 9.0)]],
        "unchecked": [[("k", 1.0), ("k", 1.0), ("m", 4.0)]],
        "interpreter": [[("k", 50.0), ("k", 10.0), ("m", 16.0)]],
    }
    k, m = speed._speeds("p", "c", rounds)
    assert k == KernelSpeed("p", "c", "k", 2, 3.0, 2.0, 60.0)
    assert (k.ratio, k.unchecked_ratio) == (20.0, 30.0)
    assert (m.ratio, m.unchecked_ratio) == (2.0, 4.0)


def test_the_table_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers in one line at 80 columns, and nothing cut off."""
    monkeypatch.setenv("COLUMNS", "80")
    kernel, case = "flash_attention_backward_kernel", "B4-NQ1024-NK1024-D128-causal1-float16"

    lab._print_table([KernelSpeed("p", case, kernel, 12, 1234.56, 500.1, 161234.5)])

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (numbers,) = (line.split() for line in lines if kernel in line)
    assert numbers == ["1234.56", "500.10", "161234.5", "130.6x", "322.4x", kernel, "x12"]
    assert case in "".join(line.strip() for line in lines)


def test_the_mean_of_ratios() -> None:
    """Twice as fast and half as fast cancel."""
    assert speed.geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert speed.geometric_mean([8.0, 2.0, 4.0]) == pytest.approx(4.0)


def test_values_that_differ_are_told() -> None:
    """Equal ones are not."""
    problem = discover.load_problem("vector_add")
    case = problem.cases[0]
    want = {"y": torch.ones(4)}
    assert not list(speed._differences(problem, case, {"y": torch.ones(4)}, want))
    (told,) = speed._differences(problem, case, {"y": torch.tensor([1.0, 1, 1.5, 1])}, want)
    assert "1 of 4 values of y are wrong" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["soft"], "there is no problem 'soft'", id="problem"),
        pytest.param(["--rounds", "1"], "Invalid value for '--rounds'", id="rounds"),
    ],
)
def test_usage_error(arguments: list[str], words: str) -> None:
    """Exit code 2 and a line that says what is wrong."""
    asked = run(*arguments)
    assert asked.returncode == 2
    assert words in asked.stderr
    assert "Traceback" not in asked.stderr


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what is missing and how to get it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(speed.UnavailableError, match="pip install triton"):
        speed.require_interpreter()


@pytest.mark.triton
def test_with_triton() -> None:
    """Both kernels of a problem, faster than the interpreter, with the mean of their ratios."""
    asked = run("gelu", "--rounds", "2", "--json")
    assert asked.returncode == 0, asked.stderr
    told = json.loads(asked.stdout)
    forward, backward = told["kernels"]
    assert forward["name"] == "gelu/gelu_forward_kernel"
    assert backward["name"] == "gelu/gelu_backward_kernel"
    for kernel in told["kernels"]:
        assert kernel["ratio"] == kernel["interpreter_ms"] / kernel["checked_ms"]
    assert told["geomean"] == pytest.approx(math.sqrt(forward["ratio"] * backward["ratio"]))
