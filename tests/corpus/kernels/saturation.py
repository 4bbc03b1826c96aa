"""Floats beyond the range of an integer type: NVIDIA's conversion saturates, C leaves it open."""

import triton
import triton.language as tl

from tests.corpus.case import Case, out
from tests.corpus.inputs import floats


@triton.jit
def cast_out_of_range(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty))


CASES = tuple(
    Case(
        f"cast_out_of_range-{a}-{b}",
        cast_out_of_range,
        (floats(a, 32), out(b, 32)),
        {"N": 32},
        wrong_in_interpreter="NumPy's conversion is the host's",
    )
    for a in ("float16", "bfloat16", "float32", "float64")
    for b in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
