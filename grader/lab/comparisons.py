"""What ``lab compare`` compares: the course notes' tables, by the staff solutions' kernels.

The notes timed GELU five ways and softmax four ways on an H100, and squared three ways in PyTorch, in
Triton and in CUDA without giving numbers. They give no sizes: at the size taken here by default, the
nine kernels of the plain GELU take about what theirs took.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch

from grader.discover import REFERENCE, load_problem
from grader.lab.compare import DTYPE, Comparison, Function, Way
from grader.measure.constants import COMPILE_DYNAMIC, COMPILE_FULLGRAPH
from grader.measure.implementations import Impl, baseline
from grader.spec import Case, Tolerance

DEFAULT_SIZE = 16384
NOTES_GPU = "H100"
KERNELS = Path(__file__).resolve().parent / "kernels"


def gelu() -> Comparison:
    """GELU in its tanh form, five ways."""
    return Comparison(
        name="gelu",
        title="GELU (tanh form)",
        oracle=functools.partial(torch.nn.functional.gelu, approximate="tanh"),
        tolerance=functools.partial(_tolerance, "gelu"),
        ways=(
            Way("plain", "the formula in PyTorch's operators", _baseline("gelu", "eager"), 8.1),
            Way("built-in", "F.gelu", _baseline("gelu", "builtin"), 1.1),
            Way("CUDA", "C++ by load_inline", _staff("cuda_gelu"), 1.8, runs_nvcc=True),
            Way("Triton", "the staff solution", _staff("gelu"), 1.84),
            Way("compiled", "torch.compile of the formula", _baseline("gelu", "compile"), 1.47),
        ),
    )


def softmax() -> Comparison:
    """Softmax over the rows, four ways."""
    return Comparison(
        name="softmax",
        title="Softmax over rows",
        oracle=functools.partial(torch.softmax, dim=-1),
        tolerance=functools.partial(_tolerance, "softmax"),
        ways=(
            Way("plain", "the formula in PyTorch's operators", _baseline("softmax", "eager"), 3.7),
            Way("built-in", "torch.softmax", _baseline("softmax", "builtin"), 1.5),
            Way("Triton", "the staff solution", _staff("softmax"), 1.9),
            Way("compiled", "torch.compile of the formula", _baseline("softmax", "compile"), 1.3),
        ),
    )


def square() -> Comparison:
    """The square of every element."""
    return Comparison(
        name="square",
        title="Square",
        oracle=torch.square,
        # one rounding, times 4
        tolerance=lambda _n: Tolerance(atol=1e-30, rtol=4 * 2.0**-24),
        ways=(
            Way("torch.square", "torch.square(x)", lambda: torch.square),
            Way("x * x", "one operator", lambda: lambda x: x * x),
            Way("x ** 2", "one operator", lambda: lambda x: x**2),
            Way("Triton", "1024 elements a program", functools.partial(_square, 1024)),
            Way("Triton, badly launched", "64 elements a program", functools.partial(_square, 64)),
            Way("CUDA", "C++ by load_inline", _staff("cuda_square"), runs_nvcc=True),
            Way("compiled", "torch.compile of x * x", _compiled_square),
        ),
    )


COMPARISONS = {"gelu": gelu, "softmax": softmax, "square": square}


def _tolerance(problem: str, n: int) -> Tolerance:
    case = Case({"M": n, "N": n}, DTYPE, why="each way must compute the same")
    return load_problem(problem).tolerance(case, "y")


def _baseline(problem: str, impl: Impl) -> functools.partial[Function]:
    return functools.partial(_load_baseline, problem, impl)


def _load_baseline(problem: str, impl: Impl) -> Function:
    return baseline(load_problem(problem), impl)


def _staff(problem: str) -> functools.partial[Function]:
    return functools.partial(_load_staff, problem)


def _load_staff(problem: str) -> Function:
    module = load_file(REFERENCE / problem / "solution.py", f"lab_{problem}")
    function: Function = getattr(module, problem)
    return function


def _square(block_size: int) -> Function:
    module = load_file(KERNELS / "square.py", "lab_square")
    return functools.partial(module.square, block_size=block_size)


def _compiled_square() -> Function:
    torch.compiler.reset()
    return torch.compile(lambda x: x * x, fullgraph=COMPILE_FULLGRAPH, dynamic=COMPILE_DYNAMIC)


def load_file(path: Path, name: str) -> ModuleType:
    """A file as a module of its own, with the Triton that is installed."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
