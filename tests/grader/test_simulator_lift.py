"""The precision lift, and the pretended GPU: host code sees nothing of them."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.simulator import (
    declare,
    declared_dtype,
    lifted,
    load_module,
    pretend_gpu,
    recording,
)

SUBMISSION = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    t = libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    tl.store(out_ptr + offsets, 0.5 * x * (1 + t), mask=mask)


@triton.jit
def gelu_backward_kernel(
    x_ptr, dy_ptr, dx_ptr, n, CUBIC: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    t = libdevice.tanh(0.7978845608028654 * (x + CUBIC * x * x * x))
    slope = 0.7978845608028654 * (1 + 3 * CUBIC * x * x)
    tl.store(dx_ptr + offsets, dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope), mask=mask)


class GeLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cubic):
        assert x.is_cuda and x.is_contiguous()
        assert x.dtype in (torch.float16, torch.float32)
        out = torch.empty(x.shape, dtype=x.dtype, device="cuda")
        assert out.dtype == x.dtype
        gelu_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK_SIZE=64)
        ctx.save_for_backward(x)
        ctx.cubic = cubic
        return out

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        assert dy.is_cuda and x.device.type == "cuda"
        assert x.dtype in (torch.float16, torch.float32)
        assert torch.empty(1, device="cuda", dtype=torch.float16).dtype == torch.float16
        dx = torch.empty_like(x, memory_format=torch.contiguous_format)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)
        gelu_backward_kernel[grid](
            x, dy.contiguous(), dx, x.numel(), CUBIC=ctx.cubic, BLOCK_SIZE=64
        )
        return dx, None


def gelu(x, cubic=0.044715):
    return GeLU.apply(x, cubic)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK_N: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    p = tl.exp(x - tl.max(x, axis=0))
    p = p / tl.sum(p, axis=0)
    tl.store(out_ptr + row * n_cols + cols, p.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_backward_kernel(p_ptr, dp_ptr, dx_ptr, n_cols, BLOCK_N: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    p = tl.load(p_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    dp = tl.load(dp_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(dx_ptr + row * n_cols + cols, p * (dp - tl.sum(p * dp, axis=0)), mask=mask)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        p = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, p, x.shape[1], triton.next_power_of_2(x.shape[1]))
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, dp):
        (p,) = ctx.saved_tensors
        dx = torch.empty_like(p)
        softmax_backward_kernel[(p.shape[0],)](
            p, dp.contiguous(), dx, p.shape[1], triton.next_power_of_2(p.shape[1])
        )
        return dx


def softmax(x):
    return Softmax.apply(x)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """The submission above, loaded."""
    path: Path = tmp_path_factory.mktemp("submission") / "gelu.py"
    path.write_text(textwrap.dedent(SUBMISSION))
    return load_module(path, name="kernels_of_test_simulator_lift")


def passes_gradcheck(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> bool:
    """Run gradcheck as the grader does: outside the lift, around stateless vjp requests."""

    def vjp(dy: torch.Tensor | None, *given: torch.Tensor) -> Any:
        with torch.enable_grad(), pretend_gpu(), lifted():
            leaves = [declare(x.detach().clone(), "float32").requires_grad_() for x in given]
            y = function(*leaves)
            if dy is None:
                return y.detach()
            return torch.autograd.grad(y, leaves, declare(dy.detach().clone(), "float32"))

    class Remote(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> Any:
            ctx.save_for_backward(*given)
            return vjp(None, *given)

        @staticmethod
        def backward(ctx: Any, dy: torch.Tensor) -> Any:
            return vjp(dy, *ctx.saved_tensors)

    return bool(
        torch.autograd.gradcheck(
            Remote.apply, inputs, eps=1e-5, atol=1e-7, rtol=1e-6, raise_exception=False
        )
    )


def leaf(*shape: int) -> torch.Tensor:
    """Normal numbers, float64, that want a gradient."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def test_gradcheck_passes_correct_backward(kernels: types.ModuleType) -> None:
    """Seven digits of agreement, though the kernels say float32 everywhere."""
    assert passes_gradcheck(kernels.gelu, leaf(5, 20))
    assert passes_gradcheck(kernels.softmax, leaf(4, 13))


def test_gradcheck_finds_a_constant_wrong_in_its_third_digit(kernels: types.ModuleType) -> None:
    """0.0447 for 0.044715 in the backward alone."""
    assert not passes_gradcheck(lambda x: kernels.gelu(x, 0.0447), leaf(5, 20))


def test_declared_dtypes_are_what_host_code_sees() -> None:
    """Casts, factories, promotion and element sizes act as declared; storage is float64."""
    x = declare(torch.randn(4, 5, dtype=torch.float64), "float16")

    with lifted():
        seen = {
            "itself": x.dtype,
            "a view": x.view(-1)[3:].dtype,
            "cast": x.to(torch.float32).dtype,
            "float()": x.float().dtype,
            "half() of a cast": x.float().half().dtype,
            "to another's": x.to(x.float()).dtype,
            "product": (x * x).dtype,
            "product with a scalar": (2.5 * x).dtype,
            "mixed product": (x * x.float()).dtype,
            "sum": x.sum().dtype,
            "sum in float32": x.sum(dtype=torch.float32).dtype,
            "empty_like": torch.empty_like(x).dtype,
            "empty_like in float32": torch.empty_like(x, dtype=torch.float32).dtype,
            "new_zeros": x.new_zeros(3).dtype,
            "zeros": torch.zeros(3).dtype,
            "zeros in bfloat16": torch.zeros(3, dtype=torch.bfloat16).dtype,
            "result_type": torch.result_type(x, x.float()),
            "comparison": (x > 0).dtype,
            "argmax": x.argmax(-1).dtype,
        }
        sizes = x.element_size(), x.nbytes, x.type()

    half, single = torch.float16, torch.float32
    assert seen == {
        "itself": half,
        "a view": half,
        "cast": single,
        "float()": single,
        "half() of a cast": half,
        "to another's": single,
        "product": half,
        "product with a scalar": half,
        "mixed product": single,
        "sum": half,
        "sum in float32": single,
        "empty_like": half,
        "empty_like in float32": single,
        "new_zeros": half,
        "zeros": single,
        "zeros in bfloat16": torch.bfloat16,
        "result_type": single,
        "comparison": torch.bool,
        "argmax": torch.int64,
    }
    assert sizes == (2, 40, "torch.HalfTensor")
    assert x.dtype == torch.float64
    assert declared_dtype(x) == "float16"


def test_undeclared_float64_counts_as_the_default() -> None:
    """What autograd makes by itself has no declaration."""
    x = torch.zeros(3, dtype=torch.float64)

    with lifted("bfloat16"):
        assert x.dtype == torch.bfloat16
        assert declared_dtype(x) == "bfloat16"
    assert declared_dtype(x) == "float64"


def test_lifted_storage_is_float64(kernels: types.ModuleType) -> None:
    """A value that no float16 or float32 holds passes through a kernel and a cast."""
    x = declare(torch.full((3,), 1 + 2.0**-40, dtype=torch.float64), "float16")

    with pretend_gpu(), lifted():
        y = kernels.gelu(x.to(torch.float32).half())

    want = torch.nn.functional.gelu(x, approximate="tanh")
    assert y.dtype == torch.float64
    assert declared_dtype(y) == "float16"
    torch.testing.assert_close(y, want, rtol=1e-14, atol=0)


def test_a_cast_does_not_share_storage() -> None:
    """x.to(float32) of a float16 tensor is a copy; of a float32 tensor it is x."""
    x = declare(torch.zeros(3, dtype=torch.float64), "float16")

    with lifted():
        y = x.to(torch.float32)
        y += 1

        assert y.to(torch.float32) is y

    assert x.tolist() == [0, 0, 0]


def test_host_code_for_cuda_runs_on_the_cpu(kernels: types.ModuleType) -> None:
    """The device is cuda:0 in the block, and what it was after it."""
    x = torch.randn(100)
    has_gpu = torch.cuda.is_available()

    with pretend_gpu(), recording() as log:
        y = kernels.gelu(x)
        assert y.is_cuda
        assert x.device == torch.device("cuda", 0)
        assert x.device.type == "cuda"
        assert torch.empty(3, device="cuda").is_cuda
        assert x.to("cuda") is x
        assert x.cuda() is x
        assert torch.cuda.is_available()
        torch.cuda.synchronize()
        assert torch.cuda.get_device_properties(x.device).multi_processor_count == 108
        with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.current_stream()):
            pass

    torch.testing.assert_close(y, torch.nn.functional.gelu(x, approximate="tanh"))
    assert not y.is_cuda
    assert torch.cuda.is_available() is has_gpu
    assert len(log.launches) == 1


def test_marks_for_a_profiler_are_passed_over(kernels: types.ModuleType) -> None:
    """What nvtx marks is for a profiler of NVIDIA; kernels between them run as without."""
    nvtx: Any = torch.cuda.nvtx  # which torch leaves untyped
    before = nvtx.range_push, nvtx.range_pop, nvtx.mark, nvtx.range_start, nvtx.range_end
    x = torch.randn(100)

    with pretend_gpu(), recording() as log:
        with nvtx.range("layer {}", 3):
            kernels.gelu(x)
        assert nvtx.range_push("inner") == nvtx.range_pop() == 0
        nvtx.mark("here")
        nvtx.range_end(nvtx.range_start("outer"))

    assert [launch.kernel for launch in log.launches] == ["gelu_kernel"]
    assert before == (nvtx.range_push, nvtx.range_pop, nvtx.mark, nvtx.range_start, nvtx.range_end)


def test_a_mistake_between_marks_is_raised() -> None:
    """Marks end with their block and hide no exception."""
    with (
        pretend_gpu(),
        pytest.raises(ValueError, match="its own"),
        torch.cuda.nvtx.range("layer"),
    ):
        raise ValueError("its own")


def test_a_tensor_made_without_a_device_is_refused(kernels: types.ModuleType) -> None:
    """torch.zeros(8) is on the CPU, where a kernel cannot reach it."""
    with pretend_gpu():
        x = torch.zeros(8)
        assert x.device.type == "cpu"
        assert not x.is_cuda
        assert x.cuda().is_cuda
        with pytest.raises(ValueError, match=r"x_ptr .*device=x\.device"):
            kernels.softmax_kernel[(1,)](x, x, 8, 8)


def test_the_gpu_is_there_in_backward_too(kernels: types.ModuleType) -> None:
    """Torch switches function modes off around autograd; the student's backward must not notice."""
    x = torch.randn(100).requires_grad_()

    with pretend_gpu(), recording() as log:
        kernels.gelu(x).sum().backward()

    (want,) = torch.autograd.grad(torch.nn.functional.gelu(x, approximate="tanh").sum(), x)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, want)
    assert [launch.kernel for launch in log.launches] == ["gelu_kernel", "gelu_backward_kernel"]
    assert log.findings == []
