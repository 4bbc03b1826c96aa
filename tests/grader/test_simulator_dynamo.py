"""torch.compile, dynamo and optimisers work beside the simulator, each in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.sandbox.client import Student
from grader.sandbox.launcher import Launcher
from grader.sandbox.line import workers
from grader.spec import Case

ROOT = Path(__file__).resolve().parent.parent.parent

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n_elements, factor, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, factor * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def scale(x, factor):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), factor, BLOCK_SIZE=64)
    return out


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return scale(x, 3.0)

    @staticmethod
    def backward(ctx, dy):
        return scale(dy.contiguous(), 3.0)


def triple(x):
    return Triple.apply(x)
"""
# {PRETEND}: whether what follows believes in a GPU; simulated kernels have run before it
START = """
import contextlib
import sys
from pathlib import Path
import torch
from grader.simulator import load_module, pretend_gpu, recording

kernels = load_module(Path(sys.argv[1]), name="kernels")
with recording(), pretend_gpu():
    x = torch.ones(100, device="cuda", requires_grad=True)
    kernels.triple(x).sum().backward()
assert x.grad.tolist() == [3.0] * 100


@contextlib.contextmanager
def inside():
    with recording() as log, pretend_gpu():
        yield
    assert not log.findings, log.findings


surroundings = inside() if {PRETEND} else contextlib.nullcontext()
device = "cuda" if {PRETEND} else "cpu"
"""


def run(folder: Path, program: str, *, pretend: bool = False) -> None:
    """Run a program in a process of its own; what it asserts must hold."""
    path = folder / "kernels.py"
    path.write_text(KERNELS)
    ended = subprocess.run(
        [sys.executable, "-c", START.replace("{PRETEND}", str(pretend)) + program, str(path)],
        cwd=ROOT,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr


pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("pretend", [False, True], ids=["after", "while-pretending"])


@BOTH
def test_explain_counts_graph_breaks(tmp_path: Path, pretend: bool) -> None:
    """The course notes' table: 2 graphs and 1 break with .item(), 1 and 0 with torch.where.

    A Python loop over rows is unrolled into one graph; a kernel of ours breaks it.
    """
    run(
        tmp_path,
        """
def with_item(x):
    y = x * 2
    if y.sum().item() > 0:
        y = y + 1
    return y * 3

def with_where(x):
    y = x * 2
    return torch.where(y.sum() > 0, y + 1, y) * 3

def over_rows(x):
    return torch.stack([x[i] * 2 for i in range(x.shape[0])])

with surroundings:
    counts = []
    for function in (with_item, with_where, over_rows, lambda x: kernels.scale(x * 2, 3.0) + 1):
        told = torch._dynamo.explain(function)(torch.ones(4, 3, device=device))
        counts.append((told.graph_count, told.graph_break_count))
assert counts[:3] == [(2, 1), (1, 0), (1, 0)], counts
assert counts[3][1] >= 1, counts
""",
        pretend=pretend,
    )


@BOTH
def test_two_graphs_for_five_lengths(tmp_path: Path, pretend: bool) -> None:
    """The first for its shape, the second for any: the course notes' count of recompilations."""
    run(
        tmp_path,
        """
from torch._dynamo.testing import CompileCounter

with surroundings:
    counter = CompileCounter()
    compiled = torch.compile(lambda x: torch.relu(x) + 1, backend=counter)
    for n in (7, 8, 9, 10, 11):
        assert compiled(torch.ones(n, device=device)).tolist() == [2.0] * n
assert counter.frame_count == 2, counter.frame_count
""",
        pretend=pretend,
    )


@pytest.mark.parametrize(
    ("backend", "pretend"), [("aot_eager", False), ("aot_eager", True), ("inductor", False)]
)
def test_a_compiled_function_gives_right_values(
    tmp_path: Path, backend: str, pretend: bool
) -> None:
    """Plain, and around a simulated kernel with its gradient."""
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler")
    run(
        tmp_path,
        f"""
with surroundings:
    plain = torch.compile(lambda x: torch.relu(x) * 2 + 1, backend="{backend}")
    assert plain(torch.tensor([-1.0, 3.0], device=device)).tolist() == [1.0, 7.0]
    around = torch.compile(lambda x: kernels.triple(x * 2) + 1, backend="{backend}")
    x = torch.ones(100, device=device, requires_grad=True)
    y = around(x)
    y.sum().backward()
    assert y.tolist() == [7.0] * 100
    assert x.grad.tolist() == [6.0] * 100
""",
        pretend=pretend,
    )


@BOTH
def test_optimisers_step(tmp_path: Path, pretend: bool) -> None:
    """On a parameter that went through a simulated kernel. The gradient is 3 in every step.

    So SGD moves by 3 lr each time; Adam, whose update is m / sqrt(v) = 1 then, by lr.
    """
    run(
        tmp_path,
        """
with surroundings:
    for optimiser, step in [(torch.optim.SGD, 0.3), (torch.optim.Adam, 0.1), (torch.optim.AdamW, 0.1)]:
        for options in [{}, {"foreach": True}, {"fused": True}]:
            if optimiser is torch.optim.AdamW:
                options = {**options, "weight_decay": 0.0}
            p = torch.nn.Parameter(torch.ones(100, device=device))
            stepping = optimiser([p], lr=0.1, **options)
            for _ in range(3):
                stepping.zero_grad()
                kernels.triple(p).sum().backward()
                stepping.step()
            assert torch.allclose(p, torch.full((100,), 1 - 3 * step, device=device), atol=1e-5), p
""",
        pretend=pretend,
    )


def test_the_lists_of_compiled_functions_hold_nothing_of_ours(tmp_path: Path) -> None:
    """After the block torch.compile is torch's own, and torch knows no triton."""
    run(
        tmp_path,
        """
import importlib.util
from grader.simulator import uncompiled
compile = torch.compile
with uncompiled():
    assert torch.compile(kernels.scale) is kernels.scale
    assert torch.compile(dynamic=True)(kernels.scale) is kernels.scale
assert torch.compile is compile
assert torch._C._len_torch_function_stack() == 0
assert not torch.cuda.is_available()
""",
    )


SUBMISSION = (
    KERNELS
    + """

@torch.compile
def doubled(x):
    y = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    assert x.is_cuda and x.dtype == torch.float32
    return y.copy_(x).mul_(2).half().float()


def entry(x):
    halved = torch.compile(lambda x: x / 2)
    return triple(halved(doubled(x)))
"""
)


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """One launcher for all."""
    launcher = Launcher()
    yield launcher
    launcher.close()


@pytest.mark.parametrize("lift", [False, True])
def test_a_submission_may_compile_parts_of_itself(
    launcher: Launcher, tmp_path: Path, lift: bool
) -> None:
    """In the simulator they run uncompiled: right, with float64 beneath them, and at once."""
    (tmp_path / "entry.py").write_text(SUBMISSION)
    student = Student(workers(launcher), tmp_path / "entry.py", "entry")
    dtype = torch.float64 if lift else torch.float32
    # a power of two that float16 holds and a third that it does not
    x = torch.tensor([0.25, 1 / 3], dtype=dtype)
    case = Case({"N": 2}, "float32", why="any", timeout_s=5)
    try:
        outcome = student.vjp(
            {"x": x}, {"y": torch.ones_like(x)}, backend="sim", case=case, lift=lift
        )
    finally:
        student.close()

    y = outcome.outputs["y"].unpack()
    rounded = (2 * x).half().float() if not lift else 2 * x
    assert torch.equal(y, rounded / 2 * 3)
    assert torch.equal(outcome.grads["x"].unpack(), torch.full_like(x, 3.0))
