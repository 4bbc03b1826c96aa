"""The kernel language: values, types and rounding as the GPU has them, and what is refused."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.simulator import CompilationError, UnsupportedError, load_module, recording, tiles

HEADER = """\
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
"""
Load = Callable[[str], types.ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a submission from its text."""

    def loader(source: str) -> types.ModuleType:
        path = tmp_path / "submission.py"
        path.write_text(HEADER + textwrap.dedent(source))
        return load_module(path, name="submission_of_test_simulator_language")

    return loader


def elementwise(load: Load, expression: str, *inputs: torch.Tensor, out: torch.dtype) -> Any:
    """Evaluate an expression of x, y, ... (blocks of 64 elements) in a kernel."""
    names = ["x", "y", "z"][: len(inputs)]
    pointers = "".join(f"{n}_ptr, " for n in names)
    loads = "\n".join(f"    {n} = tl.load({n}_ptr + i)" for n in names)
    module = load(
        f"@triton.jit\ndef kernel({pointers}out_ptr):\n    i = tl.arange(0, 64)\n{loads}\n"
        f"    tl.store(out_ptr + i, {expression})\n"
    )
    result = torch.empty(64, dtype=out)
    module.kernel[(1,)](*inputs, result)
    return result


X = torch.linspace(-4, 4, 64)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("tl.exp(x)", torch.exp(X)),
        ("tl.exp2(x)", torch.exp2(X)),
        ("tl.log(x * x + 1)", torch.log(X * X + 1)),
        ("tl.log2(x * x + 1)", torch.log2(X * X + 1)),
        ("tl.sqrt(x * x)", X.abs()),
        ("tl.rsqrt(x * x + 1)", torch.rsqrt(X * X + 1)),
        ("tl.sin(x) + tl.cos(x)", torch.sin(X) + torch.cos(X)),
        ("tl.math.erf(x)", torch.erf(X)),
        ("tl.abs(x)", X.abs()),
        ("tl.floor(x) - tl.ceil(x)", X.floor() - X.ceil()),
        ("tl.sigmoid(x)", torch.sigmoid(X)),
        ("x.sigmoid()", torch.sigmoid(X)),
        ("libdevice.tanh(x)", torch.tanh(X)),
        ("libdevice.expm1(x)", torch.expm1(X)),
        ("libdevice.pow(tl.abs(x), 1.5)", X.abs() ** 1.5),
        ("tl.maximum(x, 0.5)", X.clamp(min=0.5)),
        ("tl.minimum(x, 0.5)", X.clamp(max=0.5)),
        ("tl.clamp(x, -1.0, 1.0)", X.clamp(-1, 1)),
        ("tl.fma(x, x, 1.0)", X * X + 1),
        ("tl.where(x > 0, x, 0.01 * x)", torch.where(X > 0, X, 0.01 * X)),
        ("tl.softmax(x)", torch.softmax(X, 0)),
        ("tl.cumsum(x, axis=0)", torch.cumsum(X, 0)),
        ("x / tl.sum(x * x)", X / (X * X).sum()),
        ("-x", -X),
        ("2 / x", 2 / X),
        ("x.to(tl.int32).to(tl.float32)", X.trunc()),
    ],
)
def test_functions_agree_with_torch(load: Load, expression: str, want: torch.Tensor) -> None:
    """Elementwise functions and scans of float32, to a few units in the last place."""
    got = elementwise(load, expression, X, out=torch.float32)

    torch.testing.assert_close(got, want, rtol=2e-6, atol=2e-6)


def test_a_nan_loses_in_maximum(load: Load) -> None:
    """As on the GPU, where max.f32 returns the number; torch.maximum returns the NaN."""
    x = torch.full((64,), float("nan"))

    assert elementwise(load, "tl.maximum(x, 1.0)", x, out=torch.float32).tolist() == [1.0] * 64
    got = elementwise(
        load, "tl.maximum(x, 1.0, propagate_nan=tl.PropagateNan.ALL)", x, out=torch.float32
    )
    assert got.isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("operation", ["x + y", "x * y", "x - y"])
def test_sixteen_bit_arithmetic_rounds_as_torch(
    load: Load, dtype: torch.dtype, operation: str
) -> None:
    """Bit for bit: computed in float32, rounded to nearest even."""
    x, y = torch.randn(64).to(dtype), torch.randn(64).to(dtype)

    got = elementwise(load, operation, x, y, out=dtype)

    assert torch.equal(got, eval(operation, {"x": x, "y": y}))


@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("target", [torch.float32, torch.float16, torch.bfloat16])
def test_casts_are_bit_equal_to_torch(load: Load, source: torch.dtype, target: torch.dtype) -> None:
    """Including ties, overflow to infinity and subnormals."""
    special = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 70000.0, -70000.0, 1e-7, 3e38])
    x = torch.cat([special, torch.randn(64 - 7) * 100]).to(source)

    got = elementwise(load, "x", x, out=target)

    assert torch.equal(got, x.to(target))


@pytest.mark.parametrize(
    ("expression", "dtype", "want"),
    [
        ("x / y", torch.float16, "fp32"),
        ("x * y", torch.float16, "fp16"),
        ("x * 2.5", torch.bfloat16, "bf16"),
        ("x * 2", torch.float16, "fp16"),
        ("x * s", torch.float16, "fp32"),
        ("x / y", torch.int32, "fp32"),
        ("x // y", torch.int32, "int32"),
        ("x * 2.5", torch.int32, "fp32"),
        ("x * n", torch.int64, "int64"),
        ("x + 1", torch.int8, "int8"),
        ("x < y", torch.float32, "int1"),
        ("tl.sum(x)", torch.int8, "int32"),
        ("tl.sum(x)", torch.float16, "fp16"),
        ("tl.max(x)", torch.bfloat16, "fp32"),
        ("tl.argmax(x, axis=0)", torch.float32, "int32"),
        ("tl.program_id(0)", torch.float32, "int32"),
        ("tl.arange(0, 8)", torch.float32, "int32"),
        ("tl.where(x > 0, x, 0.0)", torch.float16, "fp16"),
        ("tl.maximum(x, 0)", torch.float16, "fp16"),
        ("tl.maximum(x, 0.0)", torch.float16, "fp32"),
        ("tl.maximum(x, y)", torch.bfloat16, "fp32"),
        ("tl.maximum(x, 0)", torch.int8, "int32"),
        ("tl.sum(x)", torch.bfloat16, "bf16"),
        ("tl.cumsum(x, 0)", torch.bfloat16, "fp32"),
        ("tl.cumsum(x, 0)", torch.uint8, "uint32"),
        ("tl.max(x)", torch.uint8, "int32"),
        ("libdevice.isnan(x)", torch.float32, "int1"),
        ("(x > 0) and (y > 0)", torch.float32, "int1"),
    ],
)
def test_types_of_results(load: Load, expression: str, dtype: torch.dtype, want: str) -> None:
    """Triton's promotion: Python numbers yield, float arguments are float32, / has no 16 bits.

    Each row was seen with Triton 3.6 on an H200.
    """
    module = load(
        f"""
        @triton.jit
        def kernel(x_ptr, y_ptr, s, n):
            i = tl.arange(0, 4)
            x = tl.load(x_ptr + i)
            y = tl.load(y_ptr + i)
            tl.static_assert(({expression}).dtype == tl.{_NAMES.get(want, want)})
        """
    )
    x = torch.ones(4, dtype=dtype)

    module.kernel[(1,)](x, x, 2.5, 3)


_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def test_floats_to_integers(load: Load) -> None:
    """Truncation; NaN gives 0 and infinity the limit, as seen on an H200."""
    x = torch.full((64,), 2.7)
    x[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), -2.7])

    got = elementwise(load, "x.to(tl.int32)", x, out=torch.int32)

    assert got[:5].tolist() == [0, 2**31 - 1, -(2**31), -2, 2]


def test_a_nan_is_never_the_argmax(load: Load) -> None:
    """As seen on an H200."""
    x = torch.zeros(64)
    x[:3] = torch.tensor([float("nan"), 1.0, 5.0])

    assert elementwise(load, "tl.argmax(x, 0)", x, out=torch.int32).tolist() == [2] * 64


BOOLEANS = """
@triton.jit
def kernel(x_ptr, out_ptr, n, FLAG: tl.constexpr, other_ptr=None):
    pid = tl.program_id(0)
    i = pid * 8 + tl.arange(0, 8)
    mask = (i < n) and (i > 2)
    mask = mask or (
        i == 0
    )
    if FLAG and other_ptr is not None and n > 100:
        mask = i < 0
    if pid == 1 and n > 5 or pid == 3:
        tl.store(out_ptr + i, -1.0)
    else:
        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask, other=0.0))
    tl.store(out_ptr + n + FLAG.value, 9.0)
"""


def test_and_and_or_on_blocks_and_scalars(load: Load) -> None:
    """Triton applies them elementwise; constants still stop at the first that decides."""
    x, out = torch.arange(32.0) + 1, torch.zeros(32)

    with recording() as log:
        load(BOOLEANS).kernel[(4,)](x, out, 20, 10)

    i = torch.arange(32)
    want = torch.where(((i < 20) & (i > 2)) | (i == 0), x, 0.0)
    want[8:16] = want[24:] = -1
    want[30] = 9
    assert torch.equal(out, want)
    # element 30 is written in lines 17 and 20, which the findings name as they stand in the file
    assert {f.line for f in log.findings if f.kind == "race"} <= {17, 20}
    assert any(f.kind == "race" for f in log.findings)


def test_integers_wrap_and_divide_as_in_c(load: Load) -> None:
    """int32 wraps around; // truncates and % takes the sign of the dividend."""
    x = torch.arange(64, dtype=torch.int32) - 32
    y = torch.full((64,), 7, dtype=torch.int32)

    wrapped = elementwise(load, "x * 100000000", x, out=torch.int32)
    quotient = elementwise(load, "x // y", x, y, out=torch.int32)
    rest = elementwise(load, "x % y", x, y, out=torch.int32)

    want = (x.long() * 100_000_000 + 2**31) % 2**32 - 2**31
    assert torch.equal(wrapped.long(), want)
    assert torch.equal(quotient, torch.div(x, y, rounding_mode="trunc"))
    assert torch.equal(rest, torch.fmod(x, y))


REDUCTIONS = """
@triton.jit
def larger(a, b):
    return tl.maximum(a, b)

@triton.jit
def kernel(x_ptr, out_ptr, N: tl.constexpr):
    rows, cols = tl.arange(0, 8), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :])
    tl.store(out_ptr + rows, tl.sum(x, axis=1))
    tl.store(out_ptr + 8 + rows, tl.max(x, axis=1))
    tl.store(out_ptr + 16 + rows, tl.min(x, 1))
    tl.store(out_ptr + 24 + rows, tl.argmax(x, axis=1))
    tl.store(out_ptr + 32 + rows, tl.argmin(x, axis=1))
    tl.store(out_ptr + 40 + rows, tl.reduce(x, 1, larger))
    tl.store(out_ptr + 48 + rows, tl.sum(tl.trans(x), axis=0))
    tl.store(out_ptr + 56 + rows, tl.sum(x.reshape(8, 2, N // 2), axis=2).sum(axis=1))
    last = tl.associative_scan(x, 1, larger)
    tl.store(out_ptr + 64 + rows, tl.sum(tl.where(cols[None, :] == N - 1, last, 0.0), axis=1))
"""


def test_reductions_and_shapes(load: Load) -> None:
    """Rows of an 8 x 16 block, reduced in nine ways."""
    x, out = torch.randn(8, 16), torch.empty(9, 8)

    load(REDUCTIONS).kernel[(1,)](x, out, 16)

    largest = x.max(1).values
    want = [x.sum(1), largest, x.min(1).values, x.argmax(1).float(), x.argmin(1).float(), largest]
    want += [x.sum(1), x.sum(1), largest]
    torch.testing.assert_close(out, torch.stack(want))


DOT = """
@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, PRECISION: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    a = tl.load(a_ptr + i[:, None] * 32 + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + i[None, :])
    if PRECISION is None:
        c = tl.dot(a, b)
    elif PRECISION == "no tf32":
        c = tl.dot(a, b, allow_tf32=False)
    else:
        c = tl.dot(a, b, input_precision=PRECISION)
    tl.store(c_ptr + i[:, None] * 16 + i[None, :], c)
"""


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Cut to 10 bits of mantissa, in float64."""
    fraction, exponent = torch.frexp(x.double())
    return torch.ldexp(torch.trunc(fraction * 2**11), exponent - 11)


def test_dot_of_float32_uses_tf32_unless_told(load: Load) -> None:
    """The default, as on the GPU, is wrong by 1e-3; "ieee" and allow_tf32=False are not."""
    a, b, c = torch.randn(16, 32), torch.randn(32, 16), torch.empty(16, 16)
    kernel = load(DOT).kernel
    exact = a.double() @ b.double()
    rounded = tf32(a) @ tf32(b)

    for precision, want in [
        (None, rounded),
        ("tf32", rounded),
        ("ieee", exact),
        ("tf32x3", exact),
        ("no tf32", exact),
    ]:
        kernel[(1,)](a, b, c, precision)
        torch.testing.assert_close(c.double(), want, rtol=1e-5, atol=1e-5)
    assert (rounded - exact).abs().max() > 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dot_accumulates_in_float32(load: Load, dtype: torch.dtype) -> None:
    """16-bit operands are exact in float32, so only the sum's order matters."""
    a, b, c = torch.randn(16, 32).to(dtype), torch.randn(32, 16).to(dtype), torch.empty(16, 16)

    load(DOT).kernel[(1,)](a, b, c, None)

    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)


DIVERGENT = """
@triton.jit
def kernel(out_ptr, n):
    pid = tl.program_id(0)
    total = 0
    for i in range(pid % 5):
        total += i * 1
    value = pid
    while value > 10:
        value = value // 2
    if pid % 2 == 0:
        if pid > n:
            return
        total = -total
    tl.store(out_ptr + pid, total * 100 + value)
"""


def test_programs_may_take_different_branches(load: Load) -> None:
    """Trip counts, while, nested if and early return, each program on its own path."""
    untouched = -(10**6)
    out = torch.full((64,), untouched, dtype=torch.int32)

    with recording() as log:
        load(DIVERGENT).kernel[(64,)](out, 40)

    want = []
    for pid in range(64):
        total, value = sum(range(pid % 5)), pid
        while value > 10:
            value //= 2
        if pid % 2 == 0:
            total = -total
        want.append(untouched if pid % 2 == 0 and pid > 40 else total * 100 + value)
    assert out.tolist() == want
    assert log.findings == []
    (launch,) = log.launches
    assert launch.n_programs == 64
    assert launch.arguments["out_ptr"].written == sum(w != untouched for w in want)


def test_a_loop_that_only_starts_elsewhere_does_not_split(load: Load) -> None:
    """range(pid * k, pid * k + k) is one pass for all programs."""
    module = load(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, ROWS: tl.constexpr):
            pid = tl.program_id(0)
            total = 0.0
            for row in range(pid * ROWS, (pid + 1) * ROWS, num_stages=2):
                total += tl.load(x_ptr + row)
            tl.store(out_ptr + pid, total)
        """
    )
    x, out = torch.randn(32), torch.empty(8)

    with recording() as log:
        module.kernel[(8,)](x, out, 4)

    torch.testing.assert_close(out, x.view(8, 4).sum(1))
    assert log.launches[0].n_passes == 1


def test_large_grids_run_in_chunks(load: Load) -> None:
    """2,000 programs of 4,096 elements: no block of 32 MB is made, and the counts stay exact."""
    module = load(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)
        """
    )
    x = torch.randn(2000 * 4096 - 5)
    out = torch.empty_like(x)

    with recording() as log:
        module.kernel[(2000,)](x, out, x.numel(), 4096)

    assert torch.equal(out, x * 2)
    (launch,) = log.launches
    assert launch.n_passes > 1
    assert launch.arguments["x_ptr"].read == x.numel()


BLOCK_POINTERS = """
@triton.jit
def kernel(x_ptr, out_ptr, M, N, B: tl.constexpr):
    src = tl.make_block_ptr(
        x_ptr, shape=(M, N), strides=(N, 1), offsets=(tl.program_id(0) * B, 0),
        block_shape=(B, B), order=(1, 0),
    )
    total = tl.zeros((B,), dtype=tl.float32)
    for _ in range(tl.cdiv(N, B)):
        total += tl.sum(tl.load(src, boundary_check=(0, 1), padding_option="zero"), axis=1)
        src = tl.advance(src, (0, B))
    dst = tl.make_block_ptr(
        out_ptr, shape=(M,), strides=(1,), offsets=(tl.program_id(0) * B,), block_shape=(B,),
        order=(0,),
    )
    tl.store(dst, total, boundary_check=(0,))
"""


def test_block_pointers(load: Load) -> None:
    """Boundary checks stand in for masks."""
    x, out = torch.randn(37, 53), torch.empty(37)

    with recording() as log:
        load(BLOCK_POINTERS).kernel[(3,)](x, out, 37, 53, 16)

    torch.testing.assert_close(out, x.sum(1))
    assert log.launches[0].arguments["x_ptr"].read == 37 * 53
    assert log.findings == []


ATOMICS = """
@triton.jit
def kernel(counter_ptr, old_ptr, max_ptr, sum_ptr, x_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 4)
    tl.store(old_ptr + pid, tl.atomic_add(counter_ptr, 1))
    tl.atomic_max(max_ptr, pid)
    tl.atomic_add(sum_ptr + i % 2, tl.load(x_ptr + pid * 4 + i))
"""


def test_atomics(load: Load) -> None:
    """Every program gets its own ticket; lanes and programs that hit one element all count."""
    counter, largest = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    old, x, total = torch.empty(50, dtype=torch.int32), torch.randn(50, 4), torch.zeros(2)

    with recording() as log:
        load(ATOMICS).kernel[(50,)](counter, old, largest, total, x)

    assert counter.item() == 50
    assert sorted(old.tolist()) == list(range(50))
    assert largest.item() == 49
    torch.testing.assert_close(total, torch.stack([x[:, ::2].sum(), x[:, 1::2].sum()]))
    assert log.launches[0].arguments["sum_ptr"].atomics == 200
    assert {f.kind for f in log.findings} == {"note"}


REFUSED = {
    "power": ("tl.arange(0, 8) ** 2", "TypeError"),
    "misspelt name": ("tl.arange(0, BLOCK)", "NameError"),
    "arange": ("tl.arange(0, 100)", "power of 2"),
    "arange of a run-time size": ("tl.arange(0, n)", "constexpr"),
    "shapes": ("tl.arange(0, 8) + tl.arange(0, 16)", r"\(8,\) and \(16,\)"),
    "exp of fp16": ("tl.exp(tl.arange(0, 8).to(tl.float16))", "fp16"),
    "if on a block": ("1 if tl.arange(0, 8) > 3 else 2", "tl.where"),
    "builtins kernels do not have": ("abs(tl.arange(0, 8))", "abs"),
    "int() of a run-time value": ("int(n)", r"\.to\(tl\.int32\)"),
    "a mask of integers": ("tl.load(x_ptr + n, mask=n)", "int1"),
    "libdevice of fp16": ("libdevice.pow(tl.zeros((8,), tl.float16), 2.0)", "fp16"),
    "chained comparison": ("0 < tl.program_id(0) < 5", "chained"),
    "indexing": ("tl.arange(0, 8)[0]", "index"),
    "static_assert": ("tl.static_assert(False, 'TODO: write this kernel')", "TODO: write this"),
    "dot of mixed types": (
        "tl.dot(tl.zeros((16, 16), tl.float16), tl.zeros((16, 16), tl.float32))",
        "same dtype",
    ),
    "dot of a small K": (
        "tl.dot(tl.zeros((16, 8), tl.float16), tl.zeros((8, 16), tl.float16))",
        "at least 16",
    ),
    "load without a pointer": ("tl.load(tl.arange(0, 8))", "pointer"),
    "pointer moved by a float": ("tl.load(x_ptr + 1.5)", "integers"),
    "store of a block to a scalar pointer": ("tl.store(x_ptr, tl.arange(0, 8))", "shape"),
    "plain global": ("GLOBAL + 1", "constexpr"),
    "plain function": ("plain_function()", "@triton.jit"),
    "other without mask": ("tl.load(x_ptr + tl.arange(0, 8), other=0.0)", "mask"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_compiler_would_refuse(load: Load, tmp_path: Path, name: str) -> None:
    """With the reason, the file and line, and the student's own line."""
    expression, reason = REFUSED[name]
    module = load(
        f"""
        GLOBAL = 5

        def plain_function():
            return 1

        @triton.jit
        def kernel(x_ptr, n):
            a = 1
            b = {expression}
        """
    )

    with pytest.raises(CompilationError, match=reason) as caught:
        module.kernel[(4,)](torch.zeros(8), 8)

    line = 5 + 9
    assert f"{tmp_path / 'submission.py'}:{line}:" in str(caught.value)
    assert f"b = {expression}" in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("break", "break"),
        ("continue", "continue"),
        ("raise ValueError", "static_assert"),
        ("return", "inside a loop"),
        ("del i", "del"),
        ("a = b = 1", "two assignments"),
        ("a = [j for j in range(3)]", "comprehension"),
        ("a = (b := 1)", ":="),
    ],
)
def test_statements_the_compiler_does_not_have(load: Load, statement: str, reason: str) -> None:
    """Found before the first launch, by syntax."""
    module = load(
        f"""
        @triton.jit
        def kernel(x_ptr):
            for i in range(3):
                if i > 5:
                    {statement}
        """
    )

    with pytest.raises(CompilationError, match=reason):
        module.kernel[(1,)](torch.zeros(8))


def test_constants_that_kernels_may_use(load: Load) -> None:
    """tl.constexpr globals, types, other @triton.jit functions and their defaults."""
    module = load(
        """
        LOG2E = tl.constexpr(1.4426950408889634)
        DTYPE = tl.float32

        @triton.jit
        def scale(x, by: tl.constexpr = 2):
            return (x * by).to(DTYPE)

        @triton.jit
        def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            x = tl.load(x_ptr + i)
            for _ in tl.static_range(2):
                x = scale(x)
            tl.store(out_ptr + i, tl.exp2(scale(x, by=3) * LOG2E))
        """
    )
    x, out = torch.randn(8) / 10, torch.empty(8)

    module.kernel[(1,)](x, out, BLOCK=8)

    torch.testing.assert_close(out, torch.exp(12 * x))


def test_a_kernel_called_without_a_grid_is_refused(load: Load) -> None:
    """kernel(x) instead of kernel[grid](x)."""
    module = load("@triton.jit\ndef kernel(x_ptr):\n    pass\n")

    with pytest.raises(CompilationError, match=r"kernel\[grid\]"):
        module.kernel(torch.zeros(8))


def test_missing_names_say_what_to_use(load: Load) -> None:
    """An unknown name of the language is the simulator's lack, not the student's mistake."""
    module = load(
        "@triton.jit\ndef kernel(x_ptr):\n    tl.dot_scaled(x_ptr)\n"
        "def measure():\n    return triton.testing.do_bench(lambda: None)\n"
    )

    with pytest.raises(UnsupportedError, match=r"dot_scaled.*use tl\.dot"):
        module.kernel[(1,)](torch.zeros(8))
    with pytest.raises(UnsupportedError, match="time"):
        module.measure()
    with pytest.raises(UnsupportedError, match="compiler"):
        module.kernel.warmup(torch.zeros(8), grid=(1,))


def test_a_failure_of_the_simulator_is_not_the_students(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error from below the kernel's own line is something the simulator cannot do."""

    def fails(*_args: object) -> None:
        raise ValueError("deep inside")

    module = load("@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n")
    monkeypatch.setattr(tiles, "find", fails)

    with pytest.raises(UnsupportedError, match=r"submission\.py:7: .*deep inside"):
        module.kernel[(1,)](torch.zeros(8))


def test_errors_inside_a_kernel_show_the_students_line(load: Load, tmp_path: Path) -> None:
    """The traceback ends in the kernel's own file and line."""
    module = load("@triton.jit\ndef kernel(x_ptr):\n    x_ptr.nothing()\n")

    with pytest.raises(CompilationError) as caught:
        module.kernel[(1,)](torch.zeros(8))

    entries = [(str(e.path), e.lineno + 1) for e in caught.traceback]
    assert (str(tmp_path / "submission.py"), 7) in entries


@pytest.mark.parametrize("grid", [(1, 2, 3, 4), (1.5,), (-1,), (1, 70000)])
def test_grids_that_cuda_does_not_take(load: Load, grid: Any) -> None:
    """One to three sizes; y and z up to 65535."""
    module = load("@triton.jit\ndef kernel(x_ptr):\n    pass\n")

    with pytest.raises(ValueError, match="grid"):
        module.kernel[grid](torch.zeros(8))


def test_program_ids_run_over_three_axes(load: Load) -> None:
    """Along x fastest; num_programs is the grid."""
    module = load(
        """
        @triton.jit
        def kernel(out_ptr):
            x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(axis=2)
            at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
            tl.store(out_ptr + at, 100 * z + 10 * y + x)
        """
    )
    out = torch.empty(2, 3, 4, dtype=torch.int32)

    module.kernel[lambda meta: (4, 3, 2)](out)

    z, y, x = torch.meshgrid(*(torch.arange(n) for n in (2, 3, 4)), indexing="ij")
    assert torch.equal(out.long(), 100 * z + 10 * y + x)


def test_branches_on_constants_alone_may_hold_anything(load: Load) -> None:
    """The compiler never looks at a branch that a constant rules out."""
    module = load(
        """
        @triton.jit
        def kernel(x_ptr, FLAG: tl.constexpr):
            if FLAG > 1:
                raise ValueError
            tl.store(x_ptr, 1.0)
        """
    )
    x = torch.zeros(1)

    module.kernel[(1,)](x, 1)

    assert x.item() == 1


def test_a_kernel_returns_nothing(load: Load) -> None:
    """As with the real compiler."""
    module = load("@triton.jit\ndef kernel(x_ptr):\n    return tl.load(x_ptr)\n")

    with pytest.raises(CompilationError, match="returns a value"):
        module.kernel[(1,)](torch.zeros(1))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("0", "acc + 1.5", "int32 but is re-assigned to fp32"),
        ("x.to(tl.float16)", "acc + x", r"fp16\[8\] but is re-assigned to fp32\[8\]"),
        ("0.0", "acc + x", r"fp32 but is re-assigned to fp32\[8\]"),
    ],
)
def test_a_variable_keeps_its_type_in_a_loop(
    load: Load, before: str, after: str, reason: str
) -> None:
    """The compiler refuses a variable that a loop turns into something else."""
    module = load(
        f"""
        @triton.jit
        def kernel(x_ptr, n):
            x = tl.load(x_ptr + tl.arange(0, 8))
            acc = {before}
            for k in range(n):
                acc = {after}
        """
    )

    with pytest.raises(CompilationError, match="variable acc has initial type " + reason):
        module.kernel[(1,)](torch.zeros(8), 3)


def test_variables_that_loops_may_carry(load: Load) -> None:
    """Equal types, pointers, nested loops, and anything at all in an unrolled loop."""
    module = load(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n):
            i = tl.arange(0, 8)
            acc = tl.zeros((8,), tl.float32)
            count = 0
            ptrs = x_ptr + i
            for k in range(n):
                acc += tl.load(ptrs)
                ptrs += 8
                j = 0
                while j < k:
                    j += 1
                    count += 1
            total = 0
            for k in tl.static_range(2):
                total = total + 1.5
            tl.store(out_ptr + i, acc + count + total)
        """
    )
    x, out = torch.randn(3, 8), torch.empty(8)

    module.kernel[(1,)](x, out, 3)

    torch.testing.assert_close(out, x.sum(0) + 3 + 3)


def test_a_number_before_a_loop_is_a_value_in_it(load: Load) -> None:
    """Acc = 0.0 is float32 from the start, so that adding bfloat16 does not round the sum."""
    module = load(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n):
            acc = 0.0
            for k in range(n):
                acc += tl.load(x_ptr + k)
            tl.static_assert(acc.dtype == tl.float32)
            tl.store(out_ptr, acc)
        """
    )
    x, out = torch.randn(50).bfloat16(), torch.empty(1)

    module.kernel[(1,)](x, out, 50)

    torch.testing.assert_close(out[0], x.float().sum())
