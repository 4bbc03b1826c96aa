"""tl.dot: what tensor cores do with operands and sums.

Where all products and sums are exact, so is the result; elsewhere the order of summation is the
GPU's own.
"""

import torch
import triton
import triton.language as tl

from tests.corpus.case import Case, Within, out
from tests.corpus.inputs import floats, integers, uniform

M, N, K = 16, 16, 32


@triton.jit
def product(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))


@triton.jit
def product_with_precision(a_ptr, b_ptr, out_ptr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + m[None, :])
    tl.store(out_ptr + m[:, None] * 16 + m[None, :], tl.dot(a, b, input_precision=PRECISION))


@triton.jit
def product_without_tf32(a_ptr, b_ptr, out_ptr, K: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + m[None, :])
    c = tl.dot(a, b, allow_tf32=False, max_num_imprecise_acc=0)
    tl.store(out_ptr + m[:, None] * 16 + m[None, :], c)


@triton.jit
def accumulated(a_ptr, b_ptr, c_ptr, out_ptr, K: tl.constexpr, TYPE: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    at = m[:, None] * 16 + m[None, :]
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + m[None, :])
    c = tl.load(c_ptr + at)
    c = tl.dot(a, b, c, out_dtype=TYPE)
    c += tl.dot(a, b)
    tl.store(out_ptr + at, tl.dot(a, b, acc=c, out_dtype=TYPE))


@triton.jit
def half_output(a_ptr, b_ptr, out_ptr, K: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + m[None, :])
    c = tl.dot(a, b, out_dtype=tl.float16)
    tl.static_assert(c.dtype == tl.float16)
    tl.store(out_ptr + m[:, None] * 16 + m[None, :], c)


@triton.jit
def transposed_operand(a_ptr, b_ptr, out_ptr, K: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + m[:, None] * K + k[None, :])
    tl.store(out_ptr + m[:, None] * 16 + m[None, :], tl.dot(a, b.T))
    tl.store(out_ptr + 256 + m[:, None] * 16 + m[None, :], tl.dot(b, tl.trans(a)))


@triton.jit
def batched(a_ptr, b_ptr, out_ptr, K: tl.constexpr):
    g, m, k = tl.arange(0, 2), tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + (g[:, None, None] * 16 + m[None, :, None]) * K + k[None, None, :])
    b = tl.load(b_ptr + (g[:, None, None] * K + k[None, :, None]) * 16 + m[None, None, :])
    at = (g[:, None, None] * 16 + m[None, :, None]) * 16 + m[None, None, :]
    tl.store(out_ptr + at, tl.dot(a, b))


def _whole(dtype, *shape, seed=1):
    """Whole numbers so small that every sum of products is exact."""
    n = int(torch.Size(shape).numel())
    return integers("int32", n, seed, low=-4, high=4).to(getattr(torch, dtype)).reshape(shape)


def _random(dtype, *shape, seed=1):
    n = int(torch.Size(shape).numel())
    return uniform(dtype, -1.0, 1.0, n, seed).reshape(shape)


def _identity(n):
    return torch.eye(n)


# |sum of 32 products below 1| <= 32, each addition in float32 (tensor cores cut rather than round)
SUM_OF_32 = Within("the order and the rounding of 32 additions in float32", atol=32 * 2.0**-21)
TF32_BITS = floats("float32", 16 * 16).nan_to_num(1.0, 2.0, -2.0).clamp(-1e30, 1e30).reshape(16, 16)

CASES = (
    *(
        Case(
            f"product-{t}-exact",
            product,
            (_whole(t, M, K), _whole(t, K, N, seed=2), out(to, M, N)),
            {"M": M, "N": N, "K": K},
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t, to in (
            ("float16", "float32"),
            ("bfloat16", "float32"),
            ("float32", "float32"),
            ("float64", "float64"),
            ("int8", "int32"),
            ("float8_e5m2", "float32"),
            ("float8_e4m3fn", "float32"),
        )
    ),
    *(
        Case(
            f"product-{t}",
            product,
            (_random(t, M, K), _random(t, K, N, seed=2), out("float32", M, N)),
            {"M": M, "N": N, "K": K},
            within=SUM_OF_32,
            wrong_in_interpreter="" if t == "float16" else "bfloat16 and TF32",
        )
        for t in ("float16", "bfloat16", "float32")
    ),
    *(
        # a product with the identity shows what is left of each operand
        Case(
            f"product_with_precision-{precision}-left",
            product_with_precision,
            (TF32_BITS, _identity(16), out("float32", 16, 16)),
            {"K": 16, "PRECISION": precision},
            wrong_in_interpreter="it does not round to TF32" if precision == "tf32" else "",
        )
        for precision in ("tf32", "ieee")
    ),
    Case(
        "product_with_precision-tf32-right",
        product_with_precision,
        (_identity(16), TF32_BITS, out("float32", 16, 16)),
        {"K": 16, "PRECISION": "tf32"},
        wrong_in_interpreter="it does not round to TF32",
    ),
    *(
        Case(
            f"product_with_precision-{precision}",
            product_with_precision,
            (_random("float32", 16, K), _random("float32", K, 16, seed=2), out("float32", 16, 16)),
            {"K": K, "PRECISION": precision},
            within=SUM_OF_32,
            wrong_in_interpreter="TF32",
        )
        for precision in ("tf32", "tf32x3", "ieee")
    ),
    Case(
        "product_without_tf32",
        product_without_tf32,
        (_random("float32", 16, K), _random("float32", K, 16, seed=2), out("float32", 16, 16)),
        {"K": K},
        within=SUM_OF_32,
    ),
    *(
        Case(
            f"accumulated-{t}",
            accumulated,
            (_whole(t, 16, K), _whole(t, K, 16, seed=2), _whole(to, 16, 16), out(to, 16, 16)),
            {"K": K, "TYPE": getattr(tl, to)},
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t, to in (
            ("float16", "float32"),
            ("bfloat16", "float32"),
            ("float32", "float32"),
            ("int8", "int32"),
        )
    ),
    Case(
        "half_output",
        half_output,
        (_whole("float16", 16, K), _whole("float16", K, 16, seed=2), out("float16", 16, 16)),
        {"K": K},
    ),
    *(
        Case(
            f"transposed_operand-{t}",
            transposed_operand,
            (_whole(t, 16, K), _whole(t, 16, K, seed=2), out("float32", 2, 16, 16)),
            {"K": K},
        )
        for t in ("float16", "float32")
    ),
    *(
        Case(
            f"batched-{t}",
            batched,
            (_whole(t, 2, 16, K), _whole(t, 2, K, 16, seed=2), out("float32", 2, 16, 16)),
            {"K": K},
        )
        for t in ("float16", "float32")
    ),
)
