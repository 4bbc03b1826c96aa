"""The kernels of the course notes, written as the notes write them, give the notes' figures.

Sections 4 to 9 and exercises 3, 4, 6 and 8. What is wanted comes from a formula or from torch in
float64, never from the simulator.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  everybody's name for it

from grader.simulator import ArgumentTraffic, Log, load_module, recording

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(y_ptr + offsets, x * tl.sigmoid(2 * a), mask=mask)


@triton.jit
def silu_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x * tl.sigmoid(x), mask=mask)


@triton.jit
def softmax_kernel(
    x_ptr, y_ptr, row_stride, n_rows, n_cols,
    BLOCK_SIZE: tl.constexpr, OTHER: tl.constexpr, ROWS_PER_PROGRAM: tl.constexpr,
):
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    for i in range(ROWS_PER_PROGRAM):
        row = tl.program_id(0) * ROWS_PER_PROGRAM + i
        if row < n_rows:
            x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=OTHER)
            x = x - tl.max(x, axis=0)
            num = tl.exp(x)
            tl.store(y_ptr + row * row_stride + cols, num / tl.sum(num, axis=0), mask=mask)


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        acc += tl.load(x_ptr + row * row_stride + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(acc, axis=0))


@triton.jit
def matmul_relu_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] + k < K), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] + k < K) & (offs_n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    acc = tl.maximum(acc, 0.0)
    tl.store(
        c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn, acc,
        mask=(offs_m[:, None] < M) & (offs_n[None, :] < N),
    )


tuned_matmul_relu_kernel = triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=8, num_stages=4),
    ],
    key=["M", "N", "K"],
)(matmul_relu_kernel)


@triton.jit
def rmsnorm_fwd_kernel(x_ptr, g_ptr, y_ptr, r_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + cols, mask=mask, other=0.0)
    r = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(r_ptr + row, r)
    tl.store(y_ptr + row * n_cols + cols, x * r * g, mask=mask)


@triton.jit
def rmsnorm_bwd_kernel(
    x_ptr, g_ptr, r_ptr, dy_ptr, dx_ptr, dg_ptr, n_rows, n_cols,
    BLOCK_SIZE: tl.constexpr, ROWS_PER_PROGRAM: tl.constexpr, INTO_ONE: tl.constexpr,
):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    g = tl.load(g_ptr + cols, mask=mask, other=0.0)
    dg = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for row in range(pid * ROWS_PER_PROGRAM, min((pid + 1) * ROWS_PER_PROGRAM, n_rows)):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        r = tl.load(r_ptr + row)
        dot = tl.sum(dy * g * x, axis=0)
        dx = dy * g * r - r * r * r * x / n_cols * dot
        tl.store(dx_ptr + row * n_cols + cols, dx, mask=mask)
        dg += dy * x * r
    if INTO_ONE:
        # exercise 6: read, add, write, from every program
        dg += tl.load(dg_ptr + cols, mask=mask, other=0.0)
        tl.store(dg_ptr + cols, dg, mask=mask)
    else:
        tl.store(dg_ptr + pid * n_cols + cols, dg, mask=mask)


def elementwise(kernel, *inputs):
    out = torch.empty_like(inputs[0])
    n = out.numel()
    kernel[(triton.cdiv(n, 256),)](*inputs, out, n, BLOCK_SIZE=256)
    return out


def softmax(x, other=float("-inf"), rows_per_program=1):
    y = torch.empty_like(x)
    n_rows, n_cols = x.shape
    softmax_kernel[(triton.cdiv(n_rows, rows_per_program),)](
        x, y, x.stride(0), n_rows, n_cols,
        BLOCK_SIZE=triton.next_power_of_2(n_cols), OTHER=other, ROWS_PER_PROGRAM=rows_per_program,
    )
    return y


def row_sum(x, block):
    out = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    row_sum_kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK_SIZE=block)
    return out


def matmul_relu(a, b, block_m, block_n, block_k):
    (M, K), (_, N) = a.shape, b.shape
    c = torch.empty((M, N), device=a.device, dtype=torch.float32)
    matmul_relu_kernel[(triton.cdiv(M, block_m), triton.cdiv(N, block_n))](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
    )
    return c


def tuned_matmul_relu(a, b):
    (M, K), (_, N) = a.shape, b.shape
    c = torch.empty((M, N), device=a.device, dtype=torch.float32)
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    tuned_matmul_relu_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride())
    return c


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g, eps, rows_per_program, into_one):
        y = torch.empty_like(x)
        r = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        rmsnorm_fwd_kernel[(x.shape[0],)](x, g, y, r, x.shape[1], eps, BLOCK_SIZE=block)
        ctx.save_for_backward(x, g, r)
        ctx.rows_per_program, ctx.into_one = rows_per_program, into_one
        return y

    @staticmethod
    def backward(ctx, dy):
        x, g, r = ctx.saved_tensors
        n_rows, n_cols = x.shape
        n_programs = triton.cdiv(n_rows, ctx.rows_per_program)
        dx = torch.empty_like(x)
        shape = (1 if ctx.into_one else n_programs, n_cols)
        dg = torch.zeros(shape, dtype=torch.float32, device=x.device)
        rmsnorm_bwd_kernel[(n_programs,)](
            x, g, r, dy.contiguous(), dx, dg, n_rows, n_cols,
            BLOCK_SIZE=triton.next_power_of_2(n_cols), ROWS_PER_PROGRAM=ctx.rows_per_program,
            INTO_ONE=ctx.into_one,
        )
        return dx, dg.sum(dim=0), None, None, None


def rmsnorm(x, g, eps=1e-5, rows_per_program=1, into_one=False):
    return RMSNorm.apply(x, g, eps, rows_per_program, into_one)
"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """The kernels above, loaded."""
    path: Path = tmp_path_factory.mktemp("notes") / "notes.py"
    path.write_text(KERNELS)
    return load_module(path, name="kernels_of_the_course_notes")


@pytest.fixture
def rng() -> torch.Generator:
    """The same numbers in every run."""
    return torch.Generator().manual_seed(6)


def moved(log: Log, argument: str) -> ArgumentTraffic:
    """Traffic of one argument of the only launch."""
    (launch,) = log.launches
    return launch.arguments[argument]


def difference(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest absolute difference, in float64."""
    return float((got.detach().double() - want.detach().double()).abs().max())


def test_vector_add_of_1000_reads_2000_and_writes_1000(
    notes: types.ModuleType, rng: torch.Generator
) -> None:
    """Section 5: four programs of 256; the 24 lanes masked off in the last move nothing."""
    x, y = torch.randn(1000, generator=rng), torch.randn(1000, generator=rng)

    with recording() as log:
        out = notes.elementwise(notes.add_kernel, x, y)

    # one rounding of the exact sum, which float64 holds
    assert torch.equal(out, (x.double() + y.double()).float())
    assert moved(log, "x_ptr").read + moved(log, "y_ptr").read == 2000
    assert moved(log, "out_ptr").written == 1000
    assert moved(log, "out_ptr").read == 0
    # 1000 float32 are 125 sectors of 32 bytes, wherever torch allocates at 64 bytes
    assert moved(log, "x_ptr").read_sectors == 125
    assert moved(log, "x_ptr").read_bytes == 4000
    (launch,) = log.launches
    assert (launch.kernel, launch.grid, launch.n_programs) == ("add_kernel", (4, 1, 1), 4)
    assert launch.n_passes == 1
    assert log.findings == []


def test_gelu_by_sigmoid_is_within_5e_7(notes: types.ModuleType, rng: torch.Generator) -> None:
    """Section 5: x sigmoid(2 a) is the tanh form; one read, one write."""
    x = torch.randn(10_000, generator=rng)

    with recording() as log:
        got = notes.elementwise(notes.gelu_kernel, x)

    assert difference(got, F.gelu(x, approximate="tanh")) <= 5e-7
    assert difference(got, F.gelu(x.double(), approximate="tanh")) <= 5e-7
    # the exact form is another function: the bound would tell
    assert difference(got, F.gelu(x.double())) > 1e-4
    assert (moved(log, "x_ptr").read, moved(log, "y_ptr").written) == (10_000, 10_000)
    assert log.findings == []


def test_silu_reads_and_writes_once(notes: types.ModuleType, rng: torch.Generator) -> None:
    """Exercise 8 (a)."""
    x = torch.randn(3001, generator=rng)

    with recording() as log:
        got = notes.elementwise(notes.silu_kernel, x)

    assert difference(got, x.double() / (1 + (-x.double()).exp())) <= 5e-7
    assert (moved(log, "x_ptr").read, moved(log, "y_ptr").written) == (3001, 3001)
    assert log.findings == []


@pytest.mark.parametrize(("rows_per_program", "n_programs"), [(1, 300), (4, 75), (7, 43)])
def test_softmax_moves_each_element_once(
    notes: types.ModuleType, rng: torch.Generator, rows_per_program: int, n_programs: int
) -> None:
    """Section 6: 300 x 781 within 1e-6, MN read, MN written; exercise 8 (b): fewer programs."""
    x = torch.randn(300, 781, generator=rng)

    with recording() as log:
        got = notes.softmax(x, rows_per_program=rows_per_program)

    assert difference(got, torch.softmax(x.double(), dim=1)) <= 1e-6
    assert moved(log, "x_ptr").read == 300 * 781
    assert moved(log, "y_ptr").written == 300 * 781
    assert log.launches[0].n_programs == n_programs
    assert log.findings == []


def test_softmax_padded_with_zero_is_wrong_on_negative_rows(
    notes: types.ModuleType, rng: torch.Generator
) -> None:
    """Exercise 3: the maximum becomes 0, and each of the 1024 - 781 padded lanes adds exp(0) = 1."""
    x = -1 - torch.rand(5, 781, generator=rng)
    numerator = x.double().exp()

    got = notes.softmax(x, other=0.0)

    want = numerator / (numerator.sum(dim=1, keepdim=True) + (1024 - 781))
    assert difference(got, want) <= 1e-6
    assert (got.double() < torch.softmax(x.double(), dim=1)).all()
    assert (got.sum(dim=1) < 0.5).all()


def test_softmax_padded_with_zero_is_right_without_padding(
    notes: types.ModuleType, rng: torch.Generator
) -> None:
    """The near miss of exercise 3: where N is a power of two, no lane is padded."""
    x = -1 - torch.rand(5, 512, generator=rng)

    got = notes.softmax(x, other=0.0)

    assert difference(got, torch.softmax(x.double(), dim=1)) <= 1e-6


@pytest.mark.parametrize("n_cols", [4096, 4095, 100])
def test_row_sum_loops_within_the_program(
    notes: types.ModuleType, rng: torch.Generator, n_cols: int
) -> None:
    """Section 7: blocks of 1024 along each row; M N read, M written."""
    x = torch.randn(6, n_cols, generator=rng)

    with recording() as log:
        got = notes.row_sum(x, 1024)

    # 4 additions a lane, then a tree over 1024 lanes: rounding errors of a few units of |x|
    assert difference(got, x.double().sum(dim=1)) <= 1e-4
    assert (moved(log, "x_ptr").read, moved(log, "out_ptr").written) == (6 * n_cols, 6)
    assert log.findings == []


@pytest.mark.parametrize(
    ("block", "n_programs", "read"),
    [(16, 256, 2_097_152), (32, 64, 1_048_576), (64, 16, 524_288), (128, 4, 262_144)],
)
def test_matmul_reads_by_its_tile(
    notes: types.ModuleType, rng: torch.Generator, block: int, n_programs: int, read: int
) -> None:
    """Section 8.3: 256 x 256 x 256 in square tiles of B reads 2 N^3 / B elements, writes N^2."""
    a, b = tf32_exact((256, 256), rng), tf32_exact((256, 256), rng)

    with recording() as log:
        got = notes.matmul_relu(a, b, block, block, 32)

    assert difference(got, (a.double() @ b.double()).relu()) <= 1e-4
    assert moved(log, "a_ptr").read + moved(log, "b_ptr").read == read == 2 * 256**3 // block
    assert moved(log, "c_ptr").written == 65_536
    assert log.launches[0].n_programs == n_programs
    assert log.findings == []


@pytest.mark.parametrize("which", ["a", "b", "both"])
def test_matmul_takes_transposed_inputs(
    notes: types.ModuleType, rng: torch.Generator, which: str
) -> None:
    """Section 8.2: strides alone tell a transposed matrix from a contiguous one."""
    a, b = tf32_exact((100, 77), rng), tf32_exact((77, 50), rng)
    if which in {"a", "both"}:
        a = a.T.contiguous().T
    if which in {"b", "both"}:
        b = b.T.contiguous().T

    with recording() as log:
        got = notes.matmul_relu(a, b, 32, 32, 16)

    assert not (a.is_contiguous() and b.is_contiguous())
    # sums of 77 products of about 1, in float32
    assert difference(got, (a.double() @ b.double()).relu()) <= 2e-5
    assert log.findings == []


def test_matmul_of_exercise_4(notes: types.ModuleType, rng: torch.Generator) -> None:
    """(1000 x 512) @ (512 x 700) in tiles of 64 x 64 x 32: a grid of (16, 11), 176 programs.

    Each of the 11 columns of programs reads A once, each of the 16 rows B.
    """
    a, b = tf32_exact((1000, 512), rng), tf32_exact((512, 700), rng)

    with recording() as log:
        notes.matmul_relu(a, b, 64, 64, 32)

    (launch,) = log.launches
    assert launch.grid == (16, 11, 1)
    assert launch.n_programs == 176
    assert moved(log, "a_ptr").read == 11 * 1000 * 512
    assert moved(log, "b_ptr").read == 16 * 512 * 700


def test_matmul_tuned(notes: types.ModuleType, rng: torch.Generator) -> None:
    """Exercise 8 (d): the same kernel under @triton.autotune."""
    a, b = tf32_exact((100, 77), rng), tf32_exact((77, 50), rng)

    with recording() as log:
        got = notes.tuned_matmul_relu(a, b)

    assert difference(got, (a.double() @ b.double()).relu()) <= 2e-5
    assert log.findings == []


SHAPES = [(4, 8), (16, 256), (33, 1000)]


@pytest.mark.parametrize("rows_per_program", [1, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_rmsnorm_and_its_gradients_are_within_1e_6(
    notes: types.ModuleType, rng: torch.Generator, shape: tuple[int, int], rows_per_program: int
) -> None:
    """Section 9: y, dx and dg against autograd in float64; exercise 8 (c): a smaller buffer."""
    x, g, dy = rmsnorm_inputs(shape, rng)

    with recording() as log:
        got = gradients(lambda x, g: notes.rmsnorm(x, g, 1e-5, rows_per_program), x, g, dy)

    for name, result, want in zip(("y", "dx", "dg"), got, wanted(x, g, dy), strict=True):
        # of the largest value: dg adds up to 33 rows
        assert difference(result, want) <= 1e-6 * max(1.0, float(want.abs().max())), name
    forward, backward = log.launches
    n_programs = -(-shape[0] // rows_per_program)
    assert (forward.n_programs, backward.n_programs) == (shape[0], n_programs)
    assert backward.arguments["dg_ptr"].written == n_programs * shape[1]
    assert log.findings == []


@pytest.mark.parametrize("shape", SHAPES)
def test_adding_to_one_dg_is_a_race(
    notes: types.ModuleType, rng: torch.Generator, shape: tuple[int, int]
) -> None:
    """Exercise 6: the notes' own simulator cannot see it, as it runs one program after another."""
    x, g, dy = rmsnorm_inputs(shape, rng)

    with recording() as log:
        gradients(lambda x, g: notes.rmsnorm(x, g, 1e-5, 1, into_one=True), x, g, dy)

    assert {(finding.kind, finding.argument) for finding in log.findings} == {("race", "dg_ptr")}


def test_one_program_may_add_to_dg(notes: types.ModuleType, rng: torch.Generator) -> None:
    """The near miss of exercise 6: a single program takes all rows."""
    x, g, dy = rmsnorm_inputs((4, 8), rng)

    with recording() as log:
        gradients(lambda x, g: notes.rmsnorm(x, g, 1e-5, 4, into_one=True), x, g, dy)

    assert log.findings == []


def tf32_exact(shape: tuple[int, int], rng: torch.Generator) -> torch.Tensor:
    """float32 that tl.dot does not round: float16 has the 10 bits of TF32's significand."""
    return torch.randn(shape, generator=rng).half().float()


def rmsnorm_inputs(
    shape: tuple[int, int], rng: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, g and dy."""
    x, dy = torch.randn(shape, generator=rng), torch.randn(shape, generator=rng)
    return x, torch.randn(shape[1], generator=rng), dy


def gradients(
    function: Callable[..., torch.Tensor], x: torch.Tensor, g: torch.Tensor, dy: torch.Tensor
) -> list[torch.Tensor]:
    """y, dx, dg."""
    leaves = [x.clone().requires_grad_(), g.clone().requires_grad_()]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def wanted(x: torch.Tensor, g: torch.Tensor, dy: torch.Tensor) -> list[torch.Tensor]:
    """The formula of section 9.1, differentiated by torch in float64."""
    return gradients(
        lambda x, g: x * (x.square().mean(dim=1, keepdim=True) + 1e-5).rsqrt() * g,
        x.double(),
        g.double(),
        dy.double(),
    )
