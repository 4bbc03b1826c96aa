"""GELU in CUDA C++: the course notes' first kernel, compiled by load_inline.

Without a GPU the .cu file is compiled for the host, and every access to memory is checked.

Source: Hendrycks and Gimpel 2016, "Gaussian error linear units", arXiv:1606.08415, section 2.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from grader.cuda_host import judging
from grader.scenarios import Log, Mistake
from grader.spec import Case, Inputs, Tolerance, scenario, scenario_case

# 1 + tanh(a) is off by a few roundings of 1 (2**-24) where tanh(a) is near -1, times |x|/2 up to 4.
# A constant of 0.0447 for 0.044715 changes y by up to 8.5e-6.
TOLERANCE = Tolerance(atol=1.5e-6, rtol=2e-6)

# a busy machine may compile for a minute; on a GPU the grader adds what nvcc needs
TIMEOUT_S = 150.0


def wanted(x: torch.Tensor) -> torch.Tensor:
    """GELU, tanh form, in float64."""
    return functional.gelu(x, approximate="tanh")


def judge(case: Case, arguments: Inputs, log: Log) -> Mistake | None:
    """Want GELU."""
    return judging.judge(case, arguments, log, wanted, TOLERANCE)


def _case(name: str, why: str, **scalars: float) -> Case:
    return scenario_case(name, why, scalars=scalars, timeout_s=TIMEOUT_S)


CASES = (
    _case("compiles", "nvcc takes the .cu file: its kernels are code for a GPU", compiles=True),
    _case("one-element", "a single element, and a block of threads for it", cols=1),
    _case(
        "whole-blocks", "2048 elements: blocks of 128, 256 or 1024 leave nothing over", cols=2048
    ),
    _case("one-more", "1025 elements: the last block has a single one", cols=1025),
    _case("thousand", "1000 elements: the last block is partly filled", cols=1000),
    _case("matrix", "7 x 131: numel() counts the elements of any shape", rows=7, cols=131),
    _case(
        "large",
        "a million elements: one block has at most 1024 threads, the grid must do the rest",
        cols=1_000_003,
    ),
    _case(
        "tails",
        "x from -1000 to 1000: exp(2a) overflows, so tanh as (e-1)/(e+1) is inf/inf",
        cols=301,
        limit=1000.0,
    ),
    _case(
        "near-zero",
        "x from -4 to 4: a constant wrong in its fourth digit shows",
        cols=999,
        limit=4.0,
    ),
    _case("empty", "no element: a launch of 0 blocks is an error, so none is made", cols=0),
    _case(
        "every-second",
        "x[::2] is not contiguous: refuse it or get it right, but do not read its neighbours",
        cols=500,
        step=2,
        may_refuse=True,
    ),
    _case(
        "on-the-cpu",
        "x in the CPU's memory, which a kernel cannot reach: refuse it",
        cols=100,
        on_host=True,
        on_cpu=True,
        may_refuse=True,
    ),
    _case(
        "bounds-one-more",
        "257 elements: no thread reads or writes behind the last one",
        cols=257,
        on_host=True,
    ),
    _case(
        "bounds-one-element",
        "of a whole block of threads only one may touch memory",
        cols=1,
        on_host=True,
    ),
)

PROBLEM = scenario(
    name="cuda_gelu",
    points=2,
    cases=CASES,
    make_inputs=judging.make_inputs,
    judge=judge,
    not_checkable=judging.not_checkable,
)
