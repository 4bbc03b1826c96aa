"""Elementwise functions of tl and libdevice, with the error that the GPU's own have."""

import math

import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.corpus.case import Case, Within, out
from tests.corpus.inputs import floats, uniform

SUBNORMALS = "it keeps subnormal numbers"
NO_LIBDEVICE = "the interpreter has no libdevice"


@triton.jit
def exact(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.floor(x))
    tl.store(out_ptr + N + i, tl.ceil(x))
    tl.store(out_ptr + 2 * N + i, tl.abs(x))


@triton.jit
def exact_square_root(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.math.sqrt_rn(tl.load(x_ptr + i)))


@triton.jit
def exp(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.exp(tl.load(x_ptr + i)))


@triton.jit
def exp2(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.exp2(tl.load(x_ptr + i)))


@triton.jit
def log(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.log(tl.load(x_ptr + i)))


@triton.jit
def log2(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.log2(tl.load(x_ptr + i)))


@triton.jit
def sin(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sin(tl.load(x_ptr + i)))


@triton.jit
def cos(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.cos(tl.load(x_ptr + i)))


@triton.jit
def sqrt(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sqrt(tl.load(x_ptr + i)))


@triton.jit
def rsqrt(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.rsqrt(tl.load(x_ptr + i)))


@triton.jit
def erf(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.erf(tl.load(x_ptr + i)))


@triton.jit
def sigmoid(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sigmoid(tl.load(x_ptr + i)))


@triton.jit
def softmax(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.softmax(tl.load(x_ptr + i)))


@triton.jit
def exact_of_libdevice(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.trunc(x))
    tl.store(out_ptr + N + i, libdevice.rint(x))
    tl.store(out_ptr + 2 * N + i, libdevice.nearbyint(x))
    tl.store(out_ptr + 3 * N + i, libdevice.round(x))
    tl.store(out_ptr + 4 * N + i, libdevice.floor(x))
    tl.store(out_ptr + 5 * N + i, libdevice.copysign(x, -x))
    tl.store(out_ptr + 6 * N + i, libdevice.sqrt_rn(x))
    tl.store(out_ptr + 7 * N + i, libdevice.rcp_rn(x))


@triton.jit
def predicates(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.isnan(x).to(tl.int1))
    tl.store(out_ptr + N + i, libdevice.isinf(x).to(tl.int1))
    tl.store(out_ptr + 2 * N + i, libdevice.finitef(x).to(tl.int1))


@triton.jit
def tanh(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, libdevice.tanh(tl.load(x_ptr + i)))


@triton.jit
def log1p_expm1(x_ptr, log1p_ptr, expm1_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(log1p_ptr + i, libdevice.log1p(x))
    tl.store(expm1_ptr + i, libdevice.expm1(x))


@triton.jit
def trigonometry(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.tan(x))
    tl.store(out_ptr + N + i, libdevice.asin(x))
    tl.store(out_ptr + 2 * N + i, libdevice.acos(x))
    tl.store(out_ptr + 3 * N + i, libdevice.atan(x))
    tl.store(out_ptr + 4 * N + i, libdevice.sin(x))
    tl.store(out_ptr + 5 * N + i, libdevice.cos(x))


@triton.jit
def hyperbolic(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.sinh(x))
    tl.store(out_ptr + N + i, libdevice.cosh(x))
    tl.store(out_ptr + 2 * N + i, libdevice.asinh(x))
    tl.store(out_ptr + 3 * N + i, libdevice.acosh(x + 2))
    tl.store(out_ptr + 4 * N + i, libdevice.atanh(x))


@triton.jit
def powers_and_roots(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.pow(x, 1.7))
    tl.store(out_ptr + N + i, libdevice.cbrt(x))
    tl.store(out_ptr + 2 * N + i, libdevice.exp10(x))
    tl.store(out_ptr + 3 * N + i, libdevice.log10(x))
    tl.store(out_ptr + 4 * N + i, libdevice.hypot(x, 1.0))
    tl.store(out_ptr + 5 * N + i, libdevice.exp(x))
    tl.store(out_ptr + 6 * N + i, libdevice.log(x))


@triton.jit
def error_functions(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.erf(x))
    tl.store(out_ptr + N + i, libdevice.erfc(x))
    tl.store(out_ptr + 2 * N + i, libdevice.erfinv(x))
    tl.store(out_ptr + 3 * N + i, libdevice.lgamma(x + 3))


@triton.jit
def of_two(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, libdevice.fmod(x, y))
    tl.store(out_ptr + N + i, libdevice.copysign(x, y))


@triton.jit
def arc_tangent_of_two(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, libdevice.atan2(tl.load(x_ptr + i), tl.load(y_ptr + i)))


@triton.jit
def fast(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.fast_expf(x))
    tl.store(out_ptr + N + i, libdevice.fast_logf(x))
    tl.store(out_ptr + 2 * N + i, libdevice.fast_sinf(x))
    tl.store(out_ptr + 3 * N + i, libdevice.fast_cosf(x))
    tl.store(out_ptr + 4 * N + i, libdevice.fast_dividef(x, x + 1))
    tl.store(out_ptr + 5 * N + i, libdevice.fast_powf(x, 1.5))


# NumPy's own float32 and float64 functions are within 4 units in the last place on any processor
NUMPY = 4


def _cuda(ulps, why="CUDA C++ Programming Guide, mathematical functions"):
    """As far from NumPy as the guide lets CUDA's function be from the exact value."""
    return Within(f"{why}: {ulps} units, and {NUMPY} of NumPy", ulps=ulps + NUMPY)


# exp(x) is ex2.approx(z), z = x * log2(e) rounded: half a unit of z is |z| * 2**-24 at most, and
# moves the result by |z| * 2**-24 * ln(2), which is 2 * |z| * ln(2) / 2 units
def _exp(largest, more=0):
    z = largest * 1.4427
    return _cuda(2 + math.ceil(2 * z * 0.6932 / 2) + more, "ex2.approx of a rounded x * log2(e)")


APPROXIMATE = _cuda(2, "PTX ISA: at most 2**-22 of the value for .approx")
DOUBLE = _cuda(2)
FAST = Within(
    "PTX ISA: .approx instructions within 2**-20.5, after one rounding", ulps=8, atol=2.0**-19
)


def _case(kernel, inputs, rows, within, name="", wrong="", dtype="float32"):
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    n = given[0].numel()
    return Case(
        name or kernel.__name__,
        kernel,
        (*given, *(out(dtype, r * n) for r in (rows if isinstance(rows, tuple) else (rows,)))),
        {"N": n},
        within=within,
        wrong_in_interpreter=wrong,
    )


ALL = floats("float32")
ALL64 = floats("float64")
CASES = (
    _case(exact, ALL, 3, None, wrong=SUBNORMALS),
    _case(exact, ALL64, 3, None, "exact-float64", dtype="float64"),
    _case(exact_square_root, ALL, 1, None),
    _case(exp, uniform("float32", -90.0, 90.0), 1, _exp(90)),
    _case(exp, ALL, 1, _exp(90), "exp-special"),
    _case(exp2, uniform("float32", -126.0, 128.0), 1, APPROXIMATE),
    _case(exp2, ALL, 1, APPROXIMATE, "exp2-special"),
    _case(log, uniform("float32", 0.0, 100.0), 1, APPROXIMATE),
    _case(log, ALL, 1, APPROXIMATE, "log-special"),
    _case(log2, uniform("float32", 0.0, 4.0), 1, APPROXIMATE),
    _case(log2, ALL, 1, APPROXIMATE, "log2-special"),
    _case(sin, uniform("float32", -10.0, 10.0), 1, _cuda(2)),
    _case(sin, ALL, 1, _cuda(2), "sin-special", wrong=SUBNORMALS),
    _case(cos, uniform("float32", -10.0, 10.0), 1, _cuda(2)),
    _case(cos, ALL, 1, _cuda(2), "cos-special"),
    _case(sqrt, ALL, 1, APPROXIMATE, wrong=SUBNORMALS),
    _case(rsqrt, ALL, 1, APPROXIMATE, wrong=SUBNORMALS),
    _case(erf, uniform("float32", -4.0, 4.0), 1, _cuda(2)),
    _case(erf, ALL, 1, _cuda(2), "erf-special", wrong=SUBNORMALS),
    # an addition and a division after exp
    _case(sigmoid, uniform("float32", -20.0, 20.0), 1, _exp(20, more=3)),
    _case(sigmoid, ALL, 1, _exp(40, more=3), "sigmoid-special"),
    # a sum of 64 and a division after exp of at most 10
    _case(softmax, uniform("float32", -5.0, 5.0), 1, _exp(10, more=8)),
    *(
        _case(
            kernel,
            uniform("float64", 0.25, 20.0),
            1,
            DOUBLE,
            f"{kernel.__name__}-float64",
            dtype="float64",
        )
        for kernel in (exp, exp2, log, log2, sin, cos, sqrt, rsqrt, erf, sigmoid)
    ),
    _case(exact_of_libdevice, ALL, 8, None, wrong=NO_LIBDEVICE),
    _case(predicates, ALL, 3, None, wrong=NO_LIBDEVICE, dtype="bool"),
    _case(tanh, uniform("float32", -6.0, 6.0), 1, _cuda(2), wrong=NO_LIBDEVICE),
    _case(tanh, ALL, 1, _cuda(2), "tanh-special", wrong=NO_LIBDEVICE),
    _case(log1p_expm1, uniform("float32", -0.75, 8.0), (1, 1), _cuda(1), wrong=NO_LIBDEVICE),
    _case(trigonometry, uniform("float32", -1.0, 1.0), 6, _cuda(4), wrong=NO_LIBDEVICE),
    _case(hyperbolic, uniform("float32", -0.96875, 0.96875), 5, _cuda(4), wrong=NO_LIBDEVICE),
    _case(powers_and_roots, uniform("float32", 0.0, 8.0), 7, _cuda(4), wrong=NO_LIBDEVICE),
    _case(error_functions, uniform("float32", -0.96875, 0.96875), 4, _cuda(6), wrong=NO_LIBDEVICE),
    _case(of_two, (ALL, floats("float32", seed=2, special=False)), 2, None, wrong=NO_LIBDEVICE),
    _case(
        arc_tangent_of_two,
        (ALL, floats("float32", seed=2, special=False)),
        1,
        _cuda(3),
        wrong=NO_LIBDEVICE,
    ),
    _case(fast, uniform("float32", 0.0, 3.0), 6, FAST, wrong=NO_LIBDEVICE),
)
