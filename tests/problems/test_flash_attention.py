"""flash_attention: its oracle in chunks, tolerance in benchmarks, and solution on newer GPUs.

The simulator poses as an A100, so that what is graded in it loads tiles through pointers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.checks.trial import grad_outputs, oracle
from grader.discover import REFERENCE, load_problem
from grader.grading import Grading, Request, opened
from grader.measure.fill import make_inputs
from grader.measure.verification import as_case
from grader.scorecard import Verdict
from grader.seen import CompiledKernel
from grader.spec import BenchmarkCase, Group

PROBLEM = load_problem("flash_attention")
SHORTEST = 64  # of the rows that are described
GROUPS: tuple[Group, ...] = ("forward", "backward", "memory")
N = 2048  # queries and keys of a benchmark on a CPU


def plain(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and logsumexp from the whole matrix of scores."""
    scores = torch.einsum("bid,bjd->bij", q, k) * q.shape[-1] ** -0.5
    if is_causal:
        i, j = (torch.arange(n) for n in scores.shape[1:])
        scores = torch.where(i[:, None] >= j, scores, -torch.inf)
    return scores.softmax(dim=-1) @ v, scores.logsumexp(dim=-1)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("n_q", "n_k"), [(50, 70), (70, 50), (1, 9)])
@pytest.mark.parametrize("chunk", [1 << 24, 700])
def test_the_oracle_in_chunks_is_the_plain_formula(
    monkeypatch: pytest.MonkeyPatch, chunk: int, n_q: int, n_k: int, is_causal: bool
) -> None:
    """Values, gradients and logsumexp, in one chunk and in chunks of a few rows."""
    monkeypatch.setitem(PROBLEM.oracle.__globals__, "CHUNK_SCORES", chunk)
    rng = torch.Generator().manual_seed(n_q)
    leaves = [
        torch.randn(3, n, 16, dtype=torch.float64, generator=rng, requires_grad=True)
        for n in (n_q, n_k, n_k)
    ]
    q, k, v = leaves
    want, want_lse = plain(q, k, v, is_causal)
    sent = torch.randn(want.shape, dtype=torch.float64, generator=rng)

    got = PROBLEM.oracle(*leaves, is_causal)

    assert PROBLEM.saved_oracle is not None
    torch.testing.assert_close(PROBLEM.saved_oracle(*leaves, is_causal), want_lse)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(
        torch.autograd.grad(got, leaves, sent), torch.autograd.grad(want, leaves, sent)
    )


def kernel(
    given: list[torch.Tensor],
    sent: torch.Tensor,
    *,
    is_causal: bool,
    keys: int,
    rounds_delta: bool,
) -> dict[str, torch.Tensor]:
    """What a kernel computes in the benchmark: scores and sums in float32, factors in their dtype.

    It looks at the first ``keys`` keys only. It scales q before it is rounded, as some do, and others
    compute delta with PyTorch's operators, which rounds it.
    """
    dtype = sent.dtype

    def rounded(x: torch.Tensor) -> torch.Tensor:
        return x.to(dtype).float()

    (q, k, v), do, scale = [x.float() for x in given], sent.float(), given[0].shape[-1] ** -0.5
    scores = rounded(q * scale) @ k.mT
    scores[..., keys:] = -torch.inf
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    highest = scores.amax(dim=-1, keepdim=True)
    weights = (scores - highest).exp()
    total = weights.sum(dim=-1, keepdim=True)
    y = rounded(rounded(weights) @ v / total)
    p = weights / total
    delta = (do * y).sum(dim=-1, keepdim=True)
    ds = rounded(p * (do @ v.mT - (rounded(delta) if rounds_delta else delta)))
    grads = {"q": ds @ k * scale, "k": ds.mT @ q * scale, "v": rounded(p).mT @ do}
    return {"y": y, **{f"grad:{name}": rounded(grad) for name, grad in grads.items()}}


@pytest.mark.parametrize(
    ("keys", "rounds_delta", "room"),
    [
        pytest.param(N, False, 4, id="honest"),
        pytest.param(N, True, 1, id="rounds-delta"),
        pytest.param(N - N // 16, False, 1, id="skips-keys"),
    ],
)
@pytest.mark.parametrize("benchmark", PROBLEM.benchmark_cases, ids=lambda case: case.id)
def test_kernels_have_room_in_the_benchmark_unless_they_skip_keys(
    benchmark: BenchmarkCase, keys: int, rounds_delta: bool, room: int
) -> None:
    """Four times an honest kernel's errors pass; without a sixteenth of the keys all is wrong.

    What is allowed is what the benchmark allows at its own sizes.
    """
    case = as_case(benchmark)
    is_causal = bool(case.scalars["is_causal"])
    specs = [replace(spec, shape=(1, N, case.dims["D"])) for spec in benchmark.inputs]
    given = make_inputs(specs, 1, torch.device("cpu"))
    sent = torch.randn(given[0].shape, generator=torch.Generator().manual_seed(2)).to(
        given[0].dtype
    )
    leaves = [x.detach().double().requires_grad_() for x in given]
    y = PROBLEM.oracle(*leaves, is_causal)
    grads = torch.autograd.grad(y, leaves, sent.double())
    want = dict(zip(("y", "grad:q", "grad:k", "grad:v"), (y.detach(), *grads), strict=True))

    with torch.no_grad():
        got = kernel(given, sent, is_causal=is_causal, keys=keys, rounds_delta=rounds_delta)

    right = {
        name: bool(
            ((got[name] - value).abs() * room <= PROBLEM.tolerance(case, name).limit(value)).all()
        )
        for name, value in want.items()
    }
    assert right == dict.fromkeys(want, keys == N)


@pytest.fixture
def grading(tmp_path: Path) -> Iterator[Grading]:
    """A grading of the solution that takes the simulator's GPU for a Hopper."""
    source = (REFERENCE / "flash_attention" / "solution.py").read_text()
    assert source.count("HOPPER = (9, 0)") == 1
    file = tmp_path / "flash_attention.py"
    file.write_text(source.replace("HOPPER = (9, 0)", "HOPPER = (8, 0)"))
    with opened(Request(file, device="cpu", seed=1)) as grading:
        yield grading


@pytest.mark.slow
def test_descriptors_pass_every_test_too(grading: Grading) -> None:
    """Tiles that reach beyond the tensors, offset tensors, which fall back to pointers, and all."""
    trials = [trial for trial in grading.trials(GROUPS) if trial.case.dtype != "float32"]
    checks = [grading.judge(trial) for trial in trials]

    assert {check.verdict for check in checks} == {Verdict.PASSED}, checks


@pytest.mark.slow
@pytest.mark.triton
def test_descriptors_compile_to_bulk_loads_without_spills(grading: Grading) -> None:
    """All kernels but the one that sums do * o load so, where the tensors allow it."""
    (problem,) = grading.problems
    loads: dict[str, set[bool]] = {}
    for trial in grading.trials(["backward"]):
        case, student = trial.case, grading.student(problem)
        if case.dtype == "float32" or case.layout == "offset" or case.dims["D"] < SHORTEST:
            continue
        inputs = grading.inputs(trial)
        grads = grad_outputs(case, oracle(problem, inputs), grading.rng(trial))
        for launched in student.vjp(inputs, grads, backend="sim", case=case).reply.specialisations:
            made = grading.compilers[problem.name].result(launched, 90)
            assert isinstance(made, CompiledKernel), (case.id, made)
            assert made.spill_bytes == 0, (case.id, made)
            loads.setdefault(made.kernel, set()).add(made.bulk_loads)

    assert loads == {
        "attention_forward_kernel": {True},
        "attention_backward_keys_kernel": {True},
        "attention_backward_queries_kernel": {True},
        "delta_kernel": {False},
    }
    assert not grading.compilers[problem.name].notes
