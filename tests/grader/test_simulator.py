"""The simulator runs the course's kernels right, and counts what they move."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grader.simulator import ArgumentTraffic, Log, load_module, recording

SUBMISSION = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def vector_add(x, y):
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)
    vector_add_kernel[grid](x, y, out, x.numel(), BLOCK_SIZE=256, num_warps=4)
    return out


@triton.jit
def softmax_kernel(x_ptr, out_ptr, x_row_stride, out_row_stride, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_row_stride + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, x.stride(0), out.stride(0), n_cols, BLOCK_N=block)
    return out


@triton.autotune(configs=[triton.Config({"GROUP_M": 8}, num_warps=4)], key=["M", "N", "K"])
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK"] == 0})
@triton.jit
def matmul_relu_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK: tl.constexpr, GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK)
    num_pid_n = tl.cdiv(N, BLOCK)
    num_pid_in_group = GROUP_M * num_pid_n
    first_pid_m = pid // num_pid_in_group * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    rows = pid_m * BLOCK + tl.arange(0, BLOCK)
    cols = pid_n * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK)):
        if EVEN_K:
            a = tl.load(a_ptrs, mask=rows[:, None] < M, other=0.0)
            b = tl.load(b_ptrs, mask=cols[None, :] < N, other=0.0)
        else:
            inside = ks < K - k * BLOCK
            a = tl.load(a_ptrs, mask=(rows[:, None] < M) & inside[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=inside[:, None] & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK * stride_ak
        b_ptrs += BLOCK * stride_bk
    c = tl.maximum(acc, 0.0).to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    tl.store(c_ptrs, c, mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul_relu(a, b, block=32):
    (M, K), (_, N) = a.shape, b.shape
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, block) * triton.cdiv(N, block),)
    matmul_relu_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), BLOCK=block
    )
    return c


@triton.jit
def rmsnorm_forward_kernel(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, eps, BLOCK_N: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask)


@triton.jit
def rmsnorm_backward_kernel(
    x_ptr, weight_ptr, rstd_ptr, dy_ptr, dx_ptr, partial_ptr, n_rows, n_cols,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for row in range(pid * ROWS, min(pid * ROWS + ROWS, n_rows)):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        xhat = x * rstd
        c = tl.sum(dy * weight * xhat, axis=0) / n_cols
        tl.store(dx_ptr + row * n_cols + cols, (dy * weight - c * xhat) * rstd, mask=mask)
        dweight += dy * xhat
    tl.store(partial_ptr + pid * n_cols + cols, dweight, mask=mask)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        assert x.is_contiguous()
        n_rows, n_cols = x.shape
        out = torch.empty_like(x)
        rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n_cols)
        rmsnorm_forward_kernel[(n_rows,)](x, weight, out, rstd, n_cols, eps, BLOCK_N=block)
        ctx.save_for_backward(x, weight, rstd)
        return out

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        dy = dy.contiguous()
        n_rows, n_cols = x.shape
        n_programs = triton.cdiv(n_rows, 4)
        dx = torch.empty_like(x)
        partial = torch.empty((n_programs, n_cols), dtype=torch.float32, device=x.device)
        rmsnorm_backward_kernel[(n_programs,)](
            x, weight, rstd, dy, dx, partial, n_rows, n_cols, ROWS=4,
            BLOCK_N=triton.next_power_of_2(n_cols),
        )
        return dx, partial.sum(0).to(weight.dtype), None


def rmsnorm(x, weight, eps=1e-6):
    return RMSNorm.apply(x, weight, eps)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """The submission above, loaded."""
    path: Path = tmp_path_factory.mktemp("submission") / "kernels.py"
    path.write_text(textwrap.dedent(SUBMISSION))
    return load_module(path, name="kernels_of_test_simulator")


def moved(log: Log, argument: str) -> ArgumentTraffic:
    """Traffic of one argument of the only launch."""
    (launch,) = log.launches
    return launch.arguments[argument]


def test_softmax_of_padded_rows(kernels: types.ModuleType) -> None:
    """The row stride is not the number of columns, and what lies between the rows is not read."""
    x = torch.full((300, 784), float("nan"))[:, :781].copy_(torch.randn(300, 781))

    with recording() as log:
        out = kernels.softmax(x)

    torch.testing.assert_close(out, torch.softmax(x, dim=-1))
    assert moved(log, "x_ptr").read == 300 * 781
    assert moved(log, "out_ptr").written == 300 * 781
    assert log.findings == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_matmul_of_any_size_and_stride(kernels: types.ModuleType, dtype: torch.dtype) -> None:
    """Ragged sizes and a transposed operand; 16-bit results are the rounded float32 sums."""
    a = torch.randn(77, 100).to(dtype)
    b = torch.randn(50, 100).to(dtype).T

    with recording() as log:
        out = kernels.matmul_relu(a, b, 32)

    want = (a.double() @ b.double()).relu().to(dtype)
    epsilon = torch.finfo(dtype).eps
    torch.testing.assert_close(out, want, rtol=2 * epsilon, atol=1e-4)
    assert log.findings == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (7, 100), (16, 256)])
def test_rmsnorm_forward_and_backward(
    kernels: types.ModuleType, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    """Values and both gradients agree with PyTorch's, and nothing is found."""
    x, weight = torch.randn(shape).to(dtype), torch.randn(shape[1]).to(dtype)
    dy = torch.randn(shape).to(dtype)

    with recording() as log:
        got = _forward_backward(kernels.rmsnorm, x, weight, dy)

    want = _forward_backward(
        lambda x, w: torch.nn.functional.rms_norm(x, (shape[1],), w, 1e-6),
        x.double(),
        weight.double(),
        dy.double(),
    )
    tolerance = 8 * torch.finfo(dtype).eps
    for g, w in zip(got, want, strict=True):
        assert g.dtype == dtype
        torch.testing.assert_close(g.double(), w, rtol=tolerance, atol=4 * tolerance)
    assert log.findings == []
    assert [launch.kernel for launch in log.launches] == [
        "rmsnorm_forward_kernel",
        "rmsnorm_backward_kernel",
    ]


def _forward_backward(
    function: Callable[..., torch.Tensor], x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor
) -> list[torch.Tensor]:
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    y = function(*leaves)
    torch.autograd.backward(y, dy)
    return [y.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def test_launches_survive_an_exception(kernels: types.ModuleType) -> None:
    """What ran before the call failed stays in the log."""

    def fails() -> None:
        kernels.vector_add(torch.ones(8), torch.ones(8))
        raise ValueError("later")

    with recording() as log, pytest.raises(ValueError, match="later"):
        fails()

    assert [launch.kernel for launch in log.launches] == ["vector_add_kernel"]


def test_nothing_is_counted_outside_a_recording(kernels: types.ModuleType) -> None:
    """A log holds the launches of its own block only."""
    with recording() as log:
        pass

    kernels.vector_add(torch.ones(8), torch.ones(8))

    assert log.launches == []
