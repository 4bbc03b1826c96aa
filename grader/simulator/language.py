"""The modules that a submission's `import triton` finds: names only, no behaviour of their own."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn

import numpy as np
import torch

from grader.simulator import (
    atomics,
    bindings,
    block_pointers,
    choosing,
    constants,
    creation,
    debug,
    dtypes,
    jit,
    mathematics,
    operators,
    random_numbers,
    reductions,
    tuning,
    values,
)
from grader.simulator.errors import UnsupportedError

bindings.bind_operators()

TRITON_VERSION = "3.7.1"  # the release whose rules the simulator follows

_INSTEAD = {
    "dot_scaled": "tl.dot on operands converted with .to()",
    "inline_asm_elementwise": "tl operations",
    "map_elementwise": "tl operations on whole blocks and tl.where",
    "topk": "tl.sort",
    "extra": "triton.language.extra.libdevice",
}


def _module(name: str, names: dict[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(names)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []

    def missing(attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        instead = _INSTEAD.get(attribute)
        advice = f"use {instead}" if instead else "write it with the operations that it has"
        raise UnsupportedError(f"{name}.{attribute} is not in the simulator: {advice}")

    module.__dict__["__getattr__"] = missing
    return module


def _public(module: types.ModuleType, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


def _atomic(operation: str) -> Callable[..., values.Value]:
    def apply(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        return atomics.atomic(operation, pointer, (val,), mask, sem)

    apply.__name__ = f"atomic_{operation}"
    return apply


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """Store ``val`` where ``cmp`` is found; gives what was there."""
    return atomics.atomic("cas", pointer, (cmp, val), None, sem)


def _elementwise() -> dict[str, Any]:
    functions = {
        name: mathematics.unary(name, function) for name, function in mathematics.UNARY.items()
    }
    for function in functions.values():
        values.member(function)
    return functions


_ELEMENTWISE = _elementwise()
_SHARED_MATH = {
    **_ELEMENTWISE,
    "abs": mathematics.abs,
    "fma": mathematics.fma,
    "fdiv": mathematics.fdiv,
    "div_rn": mathematics.binary("div_rn", np.divide),
    "umulhi": mathematics.umulhi,
}


def _libdevice_names() -> dict[str, Any]:

    unary = {n: mathematics.unary(n, f) for n, f in mathematics.LIBDEVICE.items()}
    binary: dict[str, Any] = {
        "pow": np.power,
        "atan2": np.arctan2,
        "fmod": np.fmod,
        "hypot": np.hypot,
        "copysign": np.copysign,
    }
    predicates: dict[str, Any] = {"isnan": np.isnan, "isinf": np.isinf, "finitef": np.isfinite}
    return {
        **_SHARED_MATH,
        **unary,
        **{n: mathematics.predicate(n, f) for n, f in predicates.items()},
        **{n: mathematics.binary(n, f) for n, f in binary.items()},
        "max": mathematics.maximum,
        "min": mathematics.minimum,
    }


def _language_names() -> dict[str, Any]:
    operations = ("add", "max", "min", "and", "or", "xor", "xchg")
    return {
        **_public(
            dtypes,
            """dtype pointer_type int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e4nv
            float8e5 float16 bfloat16 float32 float64""",
        ),
        "tensor": values.Value,
        "constexpr": constants.constexpr,
        "add": operators.add,
        "sub": operators.subtract,
        **_public(
            creation,
            """program_id num_programs arange full zeros zeros_like cast to_tensor expand_dims
            broadcast_to broadcast reshape view ravel trans permute cat join split interleave
            static_range""",
        ),
        "range": creation.kernel_range,
        **_public(
            reductions,
            """sum max min argmax argmin xor_sum reduce_or reduce associative_scan cumsum cumprod
            sort flip gather histogram""",
        ),
        **_public(
            mathematics,
            """abs softmax maximum minimum PropagateNan clamp fma mul fdiv umulhi cdiv swizzle2d
            where dot""",
        ),
        "div_rn": _SHARED_MATH["div_rn"],
        **_ELEMENTWISE,
        **{f"atomic_{operation}": _atomic(operation) for operation in operations},
        "atomic_cas": atomic_cas,
        **_public(block_pointers, "load store make_block_ptr advance make_tensor_descriptor"),
        **_public(
            random_numbers,
            "rand rand4x randn randn4x randint randint4x uint_to_uniform_float",
        ),
        **_public(debug, "static_assert static_print device_assert device_print"),
        "multiple_of": debug.hint,
        "max_contiguous": debug.hint,
        "max_constancy": debug.hint,
        "assume": debug.no_effect,
        "debug_barrier": debug.no_effect,
    }


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, int(n) - 1).bit_length()


def cdiv(x: int, y: int) -> int:
    """``x / y`` rounded up."""
    return -(-x // y)


def _no_time(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise UnsupportedError(
        "triton.testing.do_bench measures time, and a simulator has none; run it on a GPU"
    )


def _driver() -> types.SimpleNamespace:
    # an A100, which the course's occupancy exercises use
    properties = {
        "multiprocessor_count": 108,
        "max_shared_mem": 166912,
        "max_num_regs": 65536,
        "warpSize": 32,
    }
    target = types.SimpleNamespace(backend="cuda", arch=80, warp_size=32)
    active = types.SimpleNamespace(
        get_active_torch_device=_active_device,
        get_current_device=lambda: 0,
        get_current_target=lambda: target,
        get_device_interface=lambda: torch.cuda,
        utils=types.SimpleNamespace(get_device_properties=lambda _device: properties),
    )
    return types.SimpleNamespace(active=active)


def _active_device() -> torch.device:
    from grader.simulator import host_marks  # noqa: PLC0415 - only host code asks

    return torch.device("cuda", 0) if host_marks.is_pretending() else torch.device("cpu")


@functools.cache
def modules() -> dict[str, types.ModuleType]:
    """All modules of the simulated triton by name."""
    libdevice_names, driver = _libdevice_names(), _driver()
    libdevice = _module("triton.language.extra.libdevice", libdevice_names)
    cuda = _module("triton.language.extra.cuda", {"libdevice": libdevice})
    extra = _module("triton.language.extra", {"libdevice": libdevice, "cuda": cuda})
    math = _module("triton.language.math", _SHARED_MATH)
    language_names = _language_names()
    language = _module("triton.language", {**language_names, "math": math, "extra": extra})
    core = _module("triton.language.core", language_names)
    language.__dict__.update(core=core, standard=core)
    testing = _module(
        "triton.testing",
        {
            "do_bench": _no_time,
            "do_bench_cudagraph": _no_time,
            "perf_report": lambda _benchmarks: (
                lambda fn: types.SimpleNamespace(fn=fn, run=_no_time)
            ),
            "Benchmark": lambda **_kwargs: None,
            "assert_close": torch.testing.assert_close,
        },
    )
    jit_module = _module("triton.runtime.jit", {"JITFunction": jit.JITFunction})
    tuner = _module(
        "triton.runtime.autotuner", {"Autotuner": tuning.Autotuner, "Config": tuning.Config}
    )
    runtime = _module(
        "triton.runtime",
        {"driver": driver, "JITFunction": jit.JITFunction, "jit": jit_module, "autotuner": tuner},
    )
    driver_module = _module("triton.runtime.driver", vars(driver))
    top = _module(
        "triton",
        {
            "__version__": TRITON_VERSION,
            "jit": jit.jit,
            "autotune": tuning.autotune,
            "heuristics": choosing.heuristics,
            "Config": tuning.Config,
            "JITFunction": jit.JITFunction,
            "cdiv": cdiv,
            "next_power_of_2": next_power_of_2,
            "set_allocator": lambda _allocator: None,
            "language": language,
            "testing": testing,
            "runtime": runtime,
        },
    )
    found = (top, language, core, math, extra, cuda, libdevice, testing, runtime)
    also = {"triton.language.standard": core, "triton.language.extra.cuda.libdevice": libdevice}
    every = (*found, jit_module, tuner, driver_module)
    return {module.__name__: module for module in every} | also
