"""Loops, branches, constants, functions and tuples inside kernels; choices made at launch."""

import triton
import triton.language as tl

from tests.corpus.case import Case, out
from tests.corpus.inputs import floats, integers

SCALE = tl.constexpr(3)
TYPE = tl.float32


@triton.constexpr_function
def half_of(n):
    return n // 2


@triton.jit
def loops(out_ptr, n):
    total = 0
    for k in range(n):
        total += k
    tl.store(out_ptr, total)
    for k in range(2, n, 3):
        total += k * k
    tl.store(out_ptr + 1, total)
    for k in range(n, 0, -2):
        total -= k
    tl.store(out_ptr + 2, total)
    for k in tl.range(0, n, 2, num_stages=2):
        total += k
    for k in tl.range(n, loop_unroll_factor=2, disallow_acc_multi_buffer=True, flatten=False):
        total += k
    tl.store(out_ptr + 3, total)
    for k in tl.static_range(4):
        total += k * SCALE
    for k in tl.static_range(6, 0, -2):
        total = total * 2 + k
    tl.store(out_ptr + 4, total)
    for _ in range(0):
        total = -1
    tl.store(out_ptr + 5, total)


@triton.jit
def while_loops(out_ptr, n):
    pid = tl.program_id(0)
    value, steps = pid + n, 0
    while value > 1:
        value = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        steps += 1
    tl.store(out_ptr + pid, steps)
    low, high = 0, 100
    while low < high and low * low < pid:
        low += 1
    tl.store(out_ptr + 16 + pid, low)


@triton.jit
def branches(out_ptr, n, MODE: tl.constexpr):
    pid = tl.program_id(0)
    if pid < n:
        value = pid * 10
    elif pid == n or pid == n + 1:
        value = pid * 100
    else:
        value = -pid
    if MODE == "double":
        value *= 2
    elif MODE is None:
        value = 0
    value = value + 1 if pid % 2 == 0 else value
    tl.store(out_ptr + pid, value)


@triton.jit
def early_return(out_ptr, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(out_ptr + pid, pid)


@triton.jit
def scaled(x, by: tl.constexpr = 2, offset=0.5):
    return x * by + offset


@triton.jit
def twice(x):
    return scaled(scaled(x), by=SCALE, offset=1.0)


@triton.jit
def smaller_larger(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def functions(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, twice(x))
    low, high = smaller_larger(x, 0.0)
    tl.store(out_ptr + N + i, low * 2 + high)
    tl.store(out_ptr + 2 * N + i, scaled(x, 4).to(TYPE))


@triton.jit
def constants(x_ptr, out_ptr, N: tl.constexpr, FLAG: tl.constexpr, bias_ptr=None):
    HALF: tl.constexpr = half_of(N)
    WIDTH: tl.constexpr = HALF * 2 if FLAG else N
    i = tl.arange(0, WIDTH)
    tl.static_assert(WIDTH == N, "the width is N")
    x = tl.load(x_ptr + i)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + i)
    if FLAG and HALF > 2:
        x = x * (N // 4) + (N % 5) - (1 << 3)
    x += tl.cdiv(N, 3) + triton.next_power_of_2(N - 1) + triton.cdiv(N, 5) + min(N, 7) + max(N, 7)
    tl.store(out_ptr + i, x)


@triton.jit
def tuples(x_ptr, out_ptr, sizes, N: tl.constexpr, SHAPE: tl.constexpr):
    rows, columns = sizes
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    pair = (x, x * 2)
    tl.store(out_ptr + i, pair[0] + pair[1] * rows + sizes[1])
    y = tl.reshape(x, SHAPE)
    tl.store(out_ptr + N + i, tl.trans(y).reshape(N))
    tl.store(out_ptr + 2 * N, rows * columns)
    tl.store(out_ptr + 2 * N + 1, SHAPE[0] * 100 + SHAPE[1])


@triton.jit
def min_max_of_scalars(out_ptr, n):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, min(pid, n) * 100 + max(pid, n))


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def with_heuristics(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + i, tl.load(x_ptr + i))
    else:
        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def heuristic_launch(x, result, n):
    with_heuristics[(triton.cdiv(n, 16),)](x, result, n, BLOCK=16)


@triton.autotune(configs=[triton.Config({"BLOCK": 16}, num_warps=2, num_stages=1)], key=["n"])
@triton.jit
def tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


def tuned_launch(x, result, n):
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, result, n)


@triton.jit(do_not_specialize=["n"])
def not_specialized(out_ptr, n):
    tl.store(out_ptr, n * 3)
    tl.device_assert(n > 0, "n is positive")


X = floats("float32", 64, special=False)
WHOLE = integers("int32", 64, low=-50, high=50).float()

CASES = (
    *(Case(f"loops-{n}", loops, (out("int32", 6), n)) for n in (0, 1, 7, 20)),
    Case("while_loops", while_loops, (out("int32", 32), 3), grid=(16,)),
    *(
        Case(f"branches-{mode}", branches, (out("int32", 16), 5), {"MODE": mode}, (16,))
        for mode in ("double", "other", None)
    ),
    Case("early_return", early_return, (out("int32", 16), 9), grid=(16,)),
    Case("functions", functions, (WHOLE, out("float32", 192)), {"N": 64}),
    *(
        Case(
            f"constants-{flag}",
            constants,
            (WHOLE, out("float32", 64)),
            {"N": 64, "FLAG": flag, "bias_ptr": None},
        )
        for flag in (True, False)
    ),
    Case("constants-bias", constants, (WHOLE, out("float32", 64), 64, True, WHOLE)),
    Case("tuples", tuples, (WHOLE, out("float32", 130), (3, 5)), {"N": 64, "SHAPE": (4, 16)}),
    Case("min_max_of_scalars", min_max_of_scalars, (out("int32", 16), 7), grid=(16,)),
    *(Case(f"heuristics-{n}", heuristic_launch, (X, out("float32", 64), n)) for n in (64, 50)),
    Case("tuned", tuned_launch, (X, out("float32", 64), 50)),
    Case("not_specialized", not_specialized, (out("int32", 1), 16)),
)
