"""The modules that a submission's `import triton` finds: names only, no behaviour of their own."""

from __future__ import annotations

import difflib
import functools
import types
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn

import torch

from grader.simulator import (
    atomics,
    bindings,
    block_pointers,
    choosing,
    constants,
    creation,
    debug,
    dot,
    dtypes,
    extremes,
    jit,
    libdevice,
    loops,
    mathematics,
    operators,
    random_numbers,
    reductions,
    shapes,
    sorting,
    tensor_descriptors,
    tuning,
    values,
)
from grader.simulator.errors import (
    CompilationError,
    MissingNameError,
    UnsupportedError,
    kernel_frame,
    refuse,
)
from grader.simulator.unsupported import ABSENT, INSTEAD

bindings.bind_operators()

TRITON_VERSION = "3.7.1"  # the release whose rules the simulator follows

# each says in LANGUAGE which of its functions are tl.<name>
_PARTS = (
    atomics,
    block_pointers,
    creation,
    debug,
    dot,
    extremes,
    loops,
    mathematics,
    sorting,
    random_numbers,
    reductions,
    shapes,
    tensor_descriptors,
)


def _module(name: str, names: dict[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(names)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []

    def missing(attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        advice = INSTEAD.get(name, {}).get(attribute)
        if advice is not None and name not in ABSENT:
            raise MissingNameError(f"{name}.{attribute} is not in the simulator: {advice}")
        near = difflib.get_close_matches(attribute, [n for n in names if n[0] != "_"], n=1)
        also = f"; did you mean {near[0]}?" if near else ""
        also = f"; {advice}" if advice else also
        # in Triton neither, or in no release that the simulator follows
        kind = AttributeError if kernel_frame() is None else CompilationError
        raise kind(f"module {name} has no attribute {attribute!r}{also}")

    module.__dict__["__getattr__"] = missing
    return module


def _named(module: types.ModuleType, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


def _language_names() -> dict[str, Any]:
    functions = {name: getattr(part, name) for part in _PARTS for name in part.LANGUAGE}
    return {
        **functions,
        **_named(
            dtypes,
            """dtype pointer_type int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e4nv
            float8e5 float16 bfloat16 float32 float64""",
        ),
        "pi32_t": dtypes.pointer_type(dtypes.int32),
        "range": loops.kernel_range,
        "tensor": values.Value,
        "tensor_descriptor": tensor_descriptors.Descriptor,
        "tuple": tuple,
        "constexpr": constants.constexpr,
        "add": operators.add,
        "sub": operators.subtract,
        "TRITON_MAX_TENSOR_NUMEL": creation.MAX_BLOCK_ELEMENTS,
    }


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, int(n) - 1).bit_length()


def cdiv(x: Any, y: Any) -> Any:
    """``x / y`` rounded up."""
    if isinstance(x, values.Value) or isinstance(y, values.Value):
        refuse("triton.cdiv takes constants; of values that the kernel computes, write tl.cdiv")
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
    from grader.simulator import host_marks  # noqa: PLC0415  only host code asks

    return torch.device("cuda", 0) if host_marks.is_pretending() else torch.device("cpu")


@functools.cache
def modules() -> dict[str, types.ModuleType]:
    """All modules of the simulated triton by name."""
    driver = _driver()
    libdevice_module = _module("triton.language.extra.libdevice", libdevice.names())
    cuda = _module("triton.language.extra.cuda", {"libdevice": libdevice_module})
    extra = _module("triton.language.extra", {"libdevice": libdevice_module, "cuda": cuda})
    math = _module(
        "triton.language.math", {name: getattr(mathematics, name) for name in mathematics.MATH}
    )
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
    host_descriptors = _module(
        "triton.tools.tensor_descriptor", {"TensorDescriptor": tensor_descriptors.TensorDescriptor}
    )
    tools = _module("triton.tools", {"tensor_descriptor": host_descriptors})
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
            "constexpr_function": constants.ConstexprFunction,
            "set_allocator": lambda _allocator: None,
            "language": language,
            "testing": testing,
            "runtime": runtime,
            "tools": tools,
        },
    )
    found = (top, language, core, math, extra, cuda, libdevice_module, testing, runtime)
    also = {
        "triton.language.standard": core,
        "triton.language.extra.cuda.libdevice": libdevice_module,
    }
    every = (*found, jit_module, tuner, driver_module, tools, host_descriptors)
    return {module.__name__: module for module in every} | also
