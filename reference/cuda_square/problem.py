"""The square of a matrix's elements in CUDA C++: two axes of blocks and threads.

Without a GPU the .cu file is compiled for the host, and every access to memory is checked.
"""

from __future__ import annotations

import torch

from grader.cuda_host import judging
from grader.scenarios import Log, Mistake
from grader.spec import Case, Inputs, Tolerance, scenario, scenario_case

# one rounding of x * x is 2**-24 = 6e-8; CUDA's powf may be off by 4 units in the last place
TOLERANCE = Tolerance(atol=1e-12, rtol=5e-7)

# a busy machine may compile for a minute; on a GPU the grader adds what nvcc needs
TIMEOUT_S = 150.0


def judge(case: Case, arguments: Inputs, log: Log) -> Mistake | None:
    """Want x * x."""
    return judging.judge(case, arguments, log, torch.square, TOLERANCE)


def _case(name: str, why: str, **scalars: float) -> Case:
    return scenario_case(name, why, scalars=scalars, timeout_s=TIMEOUT_S)


CASES = (
    _case("compiles", "nvcc takes the .cu file: its kernels are code for a GPU", compiles=True),
    _case("one-element", "a single element, and a block of threads for it", rows=1, cols=1),
    _case("whole-blocks", "64 x 64: blocks of 16, 32 or 64 leave nothing over", rows=64, cols=64),
    _case("off-the-block", "17 x 33: the blocks at the edges are partly filled", rows=17, cols=33),
    _case("wide", "3 rows of 1000: element (row, col) is at row * cols + col", rows=3, cols=1000),
    _case("tall", "1000 rows of 3: rows and columns are not to be mixed up", rows=1000, cols=3),
    _case(
        "large",
        "a million elements: one block has at most 1024 threads, the grid must do the rest",
        rows=1025,
        cols=1033,
    ),
    _case("empty", "5 x 0: a launch of 0 blocks is an error, so none is made", rows=5, cols=0),
    _case(
        "every-second-column",
        "x[:, ::2] is not contiguous: refuse it or get it right, but do not read the other columns",
        rows=40,
        cols=50,
        step=2,
        may_refuse=True,
    ),
    _case(
        "on-the-cpu",
        "x in the CPU's memory, which a kernel cannot reach: refuse it",
        rows=4,
        cols=4,
        on_host=True,
        on_cpu=True,
        may_refuse=True,
    ),
    _case(
        "bounds-off-the-block",
        "no thread reads or writes outside the matrix, and no two write one element",
        rows=17,
        cols=33,
        on_host=True,
    ),
    _case(
        "bounds-one-element",
        "of a whole block of threads only one may touch memory",
        rows=1,
        cols=1,
        on_host=True,
    ),
)

PROBLEM = scenario(
    name="cuda_square",
    points=2,
    cases=CASES,
    make_inputs=judging.make_inputs,
    judge=judge,
    not_checkable=judging.not_checkable,
)
