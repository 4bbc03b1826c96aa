"""Whole kernels as a course asks for them: elementwise, normalisation, loss, matmul, attention."""

import triton
import triton.language as tl

from tests.corpus.case import Case, Within, out
from tests.corpus.inputs import integers, uniform


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask) + tl.load(y_ptr + i, mask), mask)


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    # tanh(z) = 2 sigmoid(2 z) - 1
    y = 0.5 * x * (1 + 2 * tl.sigmoid(2 * inner) - 1)
    tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def softmax(x_ptr, out_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + cols, mask=cols < n_cols, other=-float("inf"))
    x = x.to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * n_cols + cols, y.to(out_ptr.dtype.element_ty), mask=cols < n_cols)


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    y = centred * rstd * tl.load(weight_ptr + cols, mask=mask) + tl.load(bias_ptr + cols, mask=mask)
    tl.store(out_ptr + row * n_cols + cols, y, mask=mask)


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    y = x * rstd * tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n_cols + cols, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def cross_entropy(logits_ptr, target_ptr, loss_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest, total = -float("inf"), 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
        new = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new), 0)
        largest = new
    target = tl.load(target_ptr + row)
    chosen = tl.load(logits_ptr + row * n_cols + target)
    tl.store(loss_ptr + row, largest + tl.log(total) - chosen)


@triton.jit
def matmul_relu(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, B: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    n_m, n_n = tl.cdiv(M, B), tl.cdiv(N, B)
    group = pid // (GROUP * n_n)
    first = group * GROUP
    size = min(n_m - first, GROUP)
    pid_m = first + (pid % (GROUP * n_n)) % size
    pid_n = (pid % (GROUP * n_n)) // size
    rows, cols, ks = pid_m * B + tl.arange(0, B), pid_n * B + tl.arange(0, B), tl.arange(0, B)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(tl.cdiv(K, B)):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - k * B), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k * B) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += B * stride_ak
        b_ptrs += B * stride_bk
    c = tl.maximum(acc, 0.0).to(c_ptr.dtype.element_ty)
    tl.store(
        c_ptr + rows[:, None] * N + cols[None, :], c, mask=(rows[:, None] < M) & (cols[None, :] < N)
    )


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, n_q, n_k, scale, D: tl.constexpr, B: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * B
    batch = tl.program_id(1)
    q_block = tl.make_block_ptr(
        q_ptr + batch * n_q * D, (n_q, D), (D, 1), (start, 0), (B, D), (1, 0)
    )
    k_block = tl.make_block_ptr(k_ptr + batch * n_k * D, (D, n_k), (1, D), (0, 0), (D, B), (0, 1))
    v_block = tl.make_block_ptr(v_ptr + batch * n_k * D, (n_k, D), (D, 1), (0, 0), (B, D), (1, 0))
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    rows = start + tl.arange(0, B)
    largest = tl.full((B,), -float("inf"), tl.float32)
    total = tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for j in range(0, n_k, B):
        k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        s = tl.dot(q, k) * (scale * 1.44269504)
        cols = j + tl.arange(0, B)
        keep = cols[None, :] < n_k
        if IS_CAUSAL:
            keep = keep & (rows[:, None] >= cols[None, :])
        s = tl.where(keep, s, -1.0e6)
        new = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(largest - new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        largest = new
        k_block = tl.advance(k_block, (0, B))
        v_block = tl.advance(v_block, (B, 0))
    out_block = tl.make_block_ptr(
        out_ptr + batch * n_q * D, (n_q, D), (D, 1), (start, 0), (B, D), (1, 0)
    )
    y = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_block, y, boundary_check=(0,))
    tl.store(lse_ptr + batch * n_q + rows, (largest + tl.log2(total)) / 1.44269504, mask=rows < n_q)


def _rows(dtype, m, n, seed=1, low=-2.0, high=2.0):
    return uniform(dtype, low, high, m * n, seed).reshape(m, n)


ROUNDINGS = "a dozen roundings of values of about 1, and the GPU's own exp"
FLOAT32 = Within(ROUNDINGS, atol=2.0**-19)
FLOAT16 = Within(ROUNDINGS + ", stored as float16", atol=2.0**-10)
BFLOAT16 = Within(ROUNDINGS + ", stored as bfloat16", atol=2.0**-7)
BY_TYPE = {"float32": FLOAT32, "float16": FLOAT16, "bfloat16": BFLOAT16}


def _interpreter(dtype):
    return "bfloat16" if dtype == "bfloat16" else "TF32" if dtype == "float32" else ""


CASES = (
    *(
        Case(
            f"vector_add-{t}",
            vector_add,
            (_rows(t, 1, 50)[0], _rows(t, 1, 50, 2)[0], out(t, 50), 50),
            {"BLOCK": 16},
            (4,),
            wrong_in_interpreter=_interpreter(t),
        )
        for t in BY_TYPE
    ),
    *(
        Case(
            f"gelu-{t}",
            gelu,
            (_rows(t, 1, 50, low=-4.0, high=4.0)[0], out(t, 50), 50),
            {"BLOCK": 16},
            (4,),
            within=Within(BY_TYPE[t].why, atol=4 * BY_TYPE[t].atol),
            wrong_in_interpreter=_interpreter(t),
        )
        for t in BY_TYPE
    ),
    *(
        Case(
            f"softmax-{t}",
            softmax,
            (_rows(t, 4, 24, low=-8.0, high=8.0), out(t, 4, 21), 24, 21),
            {"BLOCK": 32},
            (4,),
            within=BY_TYPE[t],
            wrong_in_interpreter=_interpreter(t),
        )
        for t in BY_TYPE
    ),
    Case(
        "layer_norm",
        layer_norm,
        (
            _rows("float32", 4, 21),
            _rows("float32", 1, 21, 2)[0],
            _rows("float32", 1, 21, 3)[0],
            out("float32", 4, 21),
            21,
            1e-5,
        ),
        {"BLOCK": 32},
        (4,),
        within=FLOAT32,
    ),
    *(
        Case(
            f"rms_norm-{t}",
            rms_norm,
            (_rows(t, 4, 21), _rows(t, 1, 21, 2)[0], out(t, 4, 21), 21, 1e-5),
            {"BLOCK": 32},
            (4,),
            within=Within(BY_TYPE[t].why, atol=2 * BY_TYPE[t].atol),
            wrong_in_interpreter=_interpreter(t),
        )
        for t in BY_TYPE
    ),
    Case(
        "cross_entropy",
        cross_entropy,
        (
            _rows("float32", 4, 50, low=-8.0, high=8.0),
            integers("int64", 4, low=0, high=49),
            out("float32", 4),
            50,
        ),
        {"BLOCK": 16},
        (4,),
        within=Within(ROUNDINGS + ", of losses up to 16", atol=2.0**-17),
    ),
    *(
        Case(
            f"matmul_relu-{t}",
            matmul_relu,
            (
                _rows(t, 40, 50, low=-1.0, high=1.0),
                _rows(t, 50, 36, 2, low=-1.0, high=1.0),
                out(t, 40, 36),
                *(40, 36, 50, 50, 1, 36, 1),
            ),
            {"B": 32, "GROUP": 2},
            (4,),
            # sums of 50 products below 1 stay below 16 here
            within=Within(
                "the order of 50 additions in float32, then one rounding to the type",
                atol={"float32": 50 * 2.0**-20, "float16": 16 * 2.0**-11, "bfloat16": 16 * 2.0**-8}[
                    t
                ],
            ),
            wrong_in_interpreter=_interpreter(t),
        )
        for t in BY_TYPE
    ),
    *(
        Case(
            f"attention-{t}-{'causal' if causal else 'full'}",
            attention,
            (
                _rows(t, 2 * 40, 16, 1),
                _rows(t, 2 * 40, 16, 2),
                _rows(t, 2 * 40, 16, 3),
                out(t, 2 * 40, 16),
                out("float32", 2 * 40),
                *(40, 40, 0.25),
            ),
            {"D": 16, "B": 16, "IS_CAUSAL": causal},
            (3, 2),
            within=Within(
                "probabilities are rounded to the operands' type (TF32 for float32) before the product",
                atol={"float32": 2.0**-9, "float16": 2.0**-9, "bfloat16": 2.0**-6}[t],
            ),
            wrong_in_interpreter=_interpreter(t),
        )
        for t in BY_TYPE
        for causal in (False, True)
    ),
)
