"""Memory that nobody wrote: what torch makes, writes, copies and reads of it is followed by element."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grader.simulator import Finding, load_module, pretend_gpu, recording

N = 16
KERNELS = """
import triton
import triton.language as tl


@triton.jit
def read(x_ptr, out_ptr, first, n):
    i = first + tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, x, mask=i < n)


# as a reader of the finding sees it
@triton.jit
def fill(out_ptr, n):
    i = tl.arange(0, 16)
    tl.store(out_ptr + i, 1.0, mask=i < n)
"""
Make = Callable[[], torch.Tensor]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """The kernels above, loaded."""
    path: Path = tmp_path_factory.mktemp("submission") / "watching.py"
    path.write_text(KERNELS)
    return load_module(path, name="kernels_of_test_simulator_watching")


def found(kernels: types.ModuleType, make: Make, first: int = 0, n: int = N) -> list[Finding]:
    """What reading elements ``first`` to ``n`` of a tensor shows."""
    with recording() as log:
        x = make()
        kernels.read[(1,)](x, torch.zeros(N, dtype=x.dtype), first, n)
    return log.findings


def grown() -> torch.Tensor:
    """Four elements that were written, and twelve that came to them."""
    return torch.ones(4).resize_(N)


def set_in_part() -> torch.Tensor:
    """The first four elements written, by a slice."""
    x = torch.empty(N)
    x[:4] = 1
    return x


def filled_in_part() -> torch.Tensor:
    """Likewise through a view."""
    x = torch.empty(4, 4)
    x[0].fill_(1)
    return x.reshape(N)


def set_by_a_mask() -> torch.Tensor:
    """Likewise where a condition holds."""
    x = torch.empty(N)
    x[torch.arange(N) < 4] = torch.ones(4)
    return x


def copied_into() -> torch.Tensor:
    """Likewise by a copy of another tensor, of which only so much was written."""
    x = torch.zeros(N)
    x[:] = 0
    y = torch.empty(N)
    y.copy_(set_in_part())
    return y


def given_as_out() -> torch.Tensor:
    """Likewise as the result of a function of torch."""
    x = torch.empty(N)
    torch.add(torch.ones(4), 1, out=x[:4])
    return x


@pytest.mark.parametrize(
    "make",
    [
        grown,
        set_in_part,
        filled_in_part,
        set_by_a_mask,
        copied_into,
        given_as_out,
        lambda: set_in_part().clone(),
        lambda: set_in_part().to(torch.float16),
        lambda: set_in_part().half().contiguous(),
        lambda: set_in_part()[None].expand(2, N).contiguous()[0],
    ],
)
def test_elements_are_followed_one_by_one(kernels: types.ModuleType, make: Make) -> None:
    """Four were written: reading these is right, the twelve others are found."""
    assert found(kernels, make, n=4) == []
    (finding,) = found(kernels, make)
    assert (finding.kind, finding.index, finding.count) == ("uninitialised_read", (4,), 12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.Tensor(N),
        lambda: torch.Tensor(torch.Size([N])),
        lambda: torch.zeros(2).new(N),
        lambda: torch.empty(0).resize_(N),
        lambda: torch.empty(4, 4).t().contiguous().view(N),
        lambda: torch.empty(N, dtype=torch.int32).clone(),
    ],
)
def test_nothing_was_written(kernels: types.ModuleType, make: Make) -> None:
    """However the memory came about."""
    (finding,) = found(kernels, make)
    assert (finding.kind, finding.count) == ("uninitialised_read", N)


def written_by_numpy() -> torch.Tensor:
    """Nobody sees what NumPy writes."""
    x = torch.empty(N)
    x.numpy()[:] = 1
    return x


def written_through_data() -> torch.Tensor:
    """Torch counts x.data apart from x."""
    x = torch.empty(N)
    x.data[:4] = 1
    x.data[4:] = 1
    return x


def written_twice() -> torch.Tensor:
    """In two halves."""
    x = torch.empty(N)
    x[: N // 2] = 1
    x[N // 2 :].normal_()
    return x


def written_unseen() -> torch.Tensor:
    """By the engine of autograd, where no mode looks."""
    x = torch.ones(N, requires_grad=True)
    x.grad = torch.empty(N)
    x.grad.zero_()
    torch.autograd.backward((x * 2).sum())
    return x.grad


@pytest.mark.parametrize(
    "make",
    [
        written_by_numpy,
        written_through_data,
        written_twice,
        written_unseen,
        lambda: torch.Tensor([1.0] * N),
        lambda: torch.Tensor(torch.ones(N)),
        lambda: torch.empty(N).fill_(1),
        lambda: torch.nn.init.uniform_(torch.empty(N)),
        lambda: torch.add(torch.ones(N), 1, out=torch.empty(0)),
        lambda: torch.ones(2 * N).resize_(N),
        lambda: torch.empty(N).set_(torch.ones(N).untyped_storage()),
        lambda: torch.empty(N).copy_(torch.ones(1)),
    ],
)
def test_all_was_written(kernels: types.ModuleType, make: Make) -> None:
    """No false accusation."""
    assert found(kernels, make) == []


def test_what_a_constructor_makes_is_in_the_hosts_memory(kernels: types.ModuleType) -> None:
    """torch.Tensor(n) heeds no device; moved to the GPU it is as unwritten as before."""
    with pretend_gpu(), recording() as log:
        with pytest.raises(ValueError, match="cpu tensor"):
            kernels.read[(1,)](torch.Tensor(N), torch.zeros(N, device="cuda"), 0, N)
        kernels.read[(1,)](torch.Tensor(N).cuda(), torch.zeros(N, device="cuda"), 0, N)

    (finding,) = log.findings
    assert (finding.kind, finding.count) == ("uninitialised_read", N)
    assert "__new__" not in vars(torch.Tensor)


@pytest.mark.parametrize(
    ("read", "n_missing"),
    [
        (lambda out: torch.allclose(out, torch.ones(N)), 4),
        (lambda out: out[10:].tolist(), 4),
        (lambda out: out + 1, 4),
        (lambda out: out.cpu().numpy(), 4),
        (lambda out: str(out.double()), 4),
        (lambda out: torch.ones(N).add_(out), 4),
        (lambda out: out[:12].sum(), 0),
        (lambda out: (out.shape, out.stride(), out.view(4, 4).is_contiguous()), 0),
        (torch.zeros_like, 0),
        (lambda out: out[12:].zero_() + out[12:], 0),
    ],
)
def test_what_the_host_reads(
    kernels: types.ModuleType, read: Callable[[torch.Tensor], object], n_missing: int
) -> None:
    """Of a tensor whose last four elements a kernel left out; shapes and views read nothing."""
    with recording(reads_of_the_host=True) as log:
        out = torch.empty(N)
        kernels.fill[(1,)](out, N - 4)
        read(out)
        read(out)

    if not n_missing:
        assert log.findings == []
        return
    (finding,) = log.findings
    assert (finding.kind, finding.kernel, finding.count) == ("never_written", "fill", n_missing)
    assert finding.source_line == "def fill(out_ptr, n):"


def test_what_several_kernels_left_out(kernels: types.ModuleType) -> None:
    """One finding for each, though the tensors are of one shape."""
    with recording(reads_of_the_host=True) as log:
        filled, copied = torch.empty(N), torch.empty(N)
        kernels.fill[(1,)](filled, N - 4)
        kernels.read[(1,)](torch.ones(N), copied, 0, N - 1)
        str((filled + copied).sum())
    assert [(f.kernel, f.count) for f in log.findings] == [("fill", 4), ("read", 1)]


def test_the_host_may_read_what_no_kernel_wrote(kernels: types.ModuleType) -> None:
    """Odd, but no kernel's business; nor is anything found where nobody asked."""
    with recording(reads_of_the_host=True) as log:
        str(torch.empty(3) + 1)
    assert log.findings == []

    with recording() as log:
        out = torch.empty(N)
        kernels.fill[(1,)](out, N - 4)
        str(out)
    assert log.findings == []


def test_tensors_that_count_no_versions_are_let_alone(kernels: types.ModuleType) -> None:
    """What torch writes of them could not be seen."""
    with pretend_gpu(), recording(reads_of_the_host=True) as log, torch.inference_mode():
        out = torch.empty(N, device="cuda")
        out[:4] = 1
        kernels.fill[(1,)](out, N - 4)
        assert out.clone()[0] == 1
        assert out.resize_(2 * N).shape == (2 * N,)
    assert log.findings == []


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: torch.func.vmap(lambda row: row + torch.empty(4).fill_(1))(x.view(4, 4)),
        torch.func.grad(lambda y: (y * torch.empty(N).fill_(2)).sum()),
        lambda x: (x.to_sparse() + x.to_sparse()).to_dense(),
    ],
    ids=["vmap", "grad", "sparse"],
)
def test_tensors_without_memory_of_their_own(
    compute: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """The values are torch's own."""
    want = compute(torch.ones(N))
    with pretend_gpu(), recording(reads_of_the_host=True) as log:
        got = compute(torch.ones(N))
    assert torch.equal(got, want)
    assert log.findings == []
