"""Names of Triton that the simulator does not have, and what to use instead."""

from __future__ import annotations

_NVIDIA_ONLY = "the simulator has NVIDIA's formats alone; use tl.float8e4nv or tl.float8e5"
_TYPES = "kernels have no use for it; ask x.dtype and x.shape"
_COMPILER = "there is no compiler here; launch the kernel with kernel[grid](...)"
_MACHINE = "a simulator knows no machine; run it on a GPU"
_ROUNDING = "use + - * / or the function ending in _rn, which rounds to nearest"
_CAST = "use x.to(dtype)"
_BITCAST = "use x.to(dtype, bitcast=True)"
_BITS = "use & | ^ << >> on integers"
_WRITE = "write it with exp, log, sqrt and arithmetic"

_LANGUAGE = {
    "bitonic_merge": "use tl.sort",
    "block_type": _TYPES,
    "condition": "use while with the condition alone",
    "const": "annotate pointers with nothing",
    "constexpr_type": _TYPES,
    "dot_scaled": "use tl.dot on operands converted with .to() and scaled by *",
    "float8e4b15": _NVIDIA_ONLY,
    "float8e4b8": _NVIDIA_ONLY,
    "float8e5b16": _NVIDIA_ONLY,
    "inline_asm_elementwise": "use tl operations; no assembler runs here",
    "map_elementwise": "use tl operations on whole blocks and tl.where",
    "philox_impl": "use tl.philox or tl.randint4x",
    "slice": "use : and None in an index",
    "target_info": "write the kernel for all targets, or choose by a tl.constexpr argument",
    "void": "a function that returns nothing needs no type",
    # before Triton 3
    "libdevice": "use triton.language.extra.libdevice",
}
_TRITON = {
    "AsyncCompileMode": _COMPILER,
    "CompilationError": "catch Exception; its text says what was refused",
    "FutureKernel": _COMPILER,
    "InterpreterError": "catch Exception; its text says what was refused",
    "KernelInterface": "use @triton.jit",
    "MockTensor": "pass a tensor",
    "OutOfResources": "no resource runs out here; the real compiler tells on `make test`",
    "TensorWrapper": "pass a tensor of the right dtype, as by x.view(dtype)",
    "TritonError": "catch Exception",
    "compile": _COMPILER,
    "max_shared_mem": _MACHINE,
    "must_use_result": "leave the decorator out",
    "reinterpret": "pass a tensor of the right dtype, as by x.view(dtype)",
}
_TESTING = {
    "Mark": "use triton.testing.perf_report",
    "cuda_memcheck": "leave it out: every access is checked here",
    "get_dram_gbps": _MACHINE,
    "get_max_simd_tflops": _MACHINE,
    "get_max_tensorcore_tflops": _MACHINE,
    "nvsmi": _MACHINE,
    "set_gpu_clock": _MACHINE,
}
_IN_LIBDEVICE = "use triton.language.extra.libdevice"
# what other libraries keep in their math modules
_MATH = dict.fromkeys(
    (
        *("acos", "asin", "atan", "atan2", "cosh", "sinh", "tan", "tanh", "pow", "log1p", "expm1"),
        *("isnan", "isinf", "round", "trunc", "rint", "fmod", "erfc", "log10", "cbrt", "copysign"),
    ),
    _IN_LIBDEVICE,
) | {"max": "use tl.maximum", "min": "use tl.minimum", "sigmoid": "use tl.sigmoid"}


def _by_suffix(names: str, advice: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), advice)


_LIBDEVICE = {
    **_by_suffix("brev byte_perm clz ffs hadd mul24 mulhi popc rhadd sad", _BITS),
    "mulhi": "use tl.umulhi",
    **_by_suffix(
        """fma_rn fma_rz fma_rd fma_ru div_rz div_rd div_ru rcp_rz rcp_rd rcp_ru sqrt_rz sqrt_rd
        sqrt_ru add_rz add_rd add_ru mul_rz mul_rd mul_ru sub_rz sub_rd sub_ru rsqrt_rn""",
        _ROUNDING,
    ),
    "fma_rn": "use tl.fma",
    **_by_suffix(
        " ".join(
            f"{a}2{b}_{rounding}"
            for a, b in (
                *(("double", "float"), ("double", "int"), ("double", "uint"), ("float", "int")),
                *(("float", "uint"), ("int", "float"), ("uint", "float"), ("float", "ll")),
                *(("float", "ull"), ("double", "ll"), ("double", "ull"), ("ll", "float")),
                *(("ull", "float"), ("ll", "double"), ("ull", "double")),
            )
            for rounding in ("rn", "rz", "rd", "ru")
        ),
        _CAST,
    ),
    **_by_suffix("int2double_rn uint2double_rn llrint llround", _CAST),
    **_by_suffix(
        """hiloint2double double2loint double2hiint uint_as_float float_as_uint longlong_as_double
        double_as_longlong""",
        _BITCAST,
    ),
    "signbit": "use x.to(tl.int32, bitcast=True) < 0",
    "saturatef": "use tl.clamp(x, 0.0, 1.0)",
    **_by_suffix(
        """rcp64h nextafter rhypot norm3d rnorm3d norm4d rnorm4d j0 j1 y0 y1 yn jn cyl_bessel_i0
        cyl_bessel_i1 erfcx erfcinv normcdfinv normcdf ldexp scalbn remainder tgamma ilogb logb""",
        _WRITE,
    ),
}

# what no release has had in these places, but other libraries have
ABSENT = frozenset({"triton.language.math"})
# module, name: what to use
INSTEAD: dict[str, dict[str, str]] = {
    "triton": _TRITON,
    "triton.language": _LANGUAGE,
    "triton.language.math": _MATH,
    "triton.language.extra.libdevice": _LIBDEVICE,
    "triton.testing": _TESTING,
}
