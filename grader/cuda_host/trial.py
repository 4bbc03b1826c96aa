"""Runs one case of a CUDA C++ problem in the student's process; the log that the judge gets.

``begin`` comes before the submission is imported, so that it finds the watched load_inline.
"""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

from grader import simulator
from grader.cuda_host import inline, refusals
from grader.cuda_host.drawing import POISON, draw, shown_places
from grader.simulator import host_marks

N_POISONED = 8  # blocks of the result's size: a launcher may allocate something before it
_CHUNK_BYTES = 1500  # 2000 characters, what one text of a log holds

_watches: dict[bool, inline.Watch] = {}
_imported: dict[str, ModuleType] = {}


def begin() -> None:
    """Watch load_inline from here on; on the host, unless this process uses a GPU."""
    on_host = not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    _watches[on_host] = inline.Watch(on_host=on_host)
    inline.install(_watches[on_host])


def run(submission: ModuleType, entry: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call the entry point on what the arguments draw; what was seen.

    Argument "on_host" keeps a case off the GPU, "compiles" only asks nvcc where there is no GPU.
    """
    on_gpu = False in _watches
    if on_gpu and arguments["on_host"]:
        return _on_host(_again(submission), entry, arguments)
    if on_gpu:
        return _on_gpu(submission, entry, arguments)
    return _on_host(submission, entry, arguments)


def _again(submission: ModuleType) -> ModuleType:
    """The same file once more, compiling for the host: what it loaded before is for the GPU."""
    path = str(submission.__file__)
    if path not in _imported:
        watch = _watches.setdefault(True, inline.Watch(on_host=True))
        inline.install(watch)
        try:
            spec = importlib.util.spec_from_file_location("submission_on_host", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        finally:
            inline.install(_watches[False])
        _imported[path] = module
    return _imported[path]


def _on_host(submission: ModuleType, entry: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    watch = _watches[True]
    watch.only_compile = bool(arguments["compiles"])
    inline.install(watch)
    try:
        # drawn before the pretence begins: then it is taken for memory of the GPU
        x = draw(arguments)
        with simulator.pretend_gpu():
            if arguments["on_cpu"]:
                host_marks.mark_cpu(x)
            log = _called(watch, getattr(submission, entry), x, arguments, _Host())
    finally:
        if False in _watches:
            inline.install(_watches[False])
    return log


def _on_gpu(submission: ModuleType, entry: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    x = draw(arguments, "cuda")
    return _called(_watches[False], getattr(submission, entry), x, arguments, _Gpu())


class _Host:
    """What surrounds a call on the host: nothing."""

    def prepare(self, x: torch.Tensor) -> None:
        """The runtime poisons what it allocates."""

    def pending(self) -> str:
        """The runtime tells what launches were refused."""
        return ""


class _Gpu(_Host):
    """What surrounds a call on a GPU."""

    def prepare(self, x: torch.Tensor) -> None:
        """Poison what the result will get from the allocator: an element that nobody writes shows."""
        torch.cuda.empty_cache()
        freed = [torch.empty(x.shape, device="cuda") for _ in range(N_POISONED)]
        for one in freed:
            one.view(torch.int32).fill_(POISON)

    def pending(self) -> str:
        """The error of a launch that nobody asked for: PyTorch's next launch raises it."""
        try:
            torch.zeros(1, device="cuda").add_(1)
            torch.cuda.synchronize()
        except RuntimeError as error:
            # raises once more if the GPU is lost to this process, as after an illegal access
            torch.cuda.synchronize()
            return str(error).partition("\n")[0]
        return ""


def _called(
    watch: inline.Watch,
    function: Callable[..., Any],
    x: torch.Tensor,
    arguments: Mapping[str, Any],
    around: _Host,
) -> dict[str, Any]:
    watch.seen = inline.Seen()
    log: dict[str, Any] = {"raised": "", "returned": None, "is_changed": False, "pending": ""}
    before = x.clone()
    try:
        if arguments["may_refuse"]:
            # whoever refuses everything has not looked at x
            function(torch.ones_like(x, memory_format=torch.contiguous_format, device="cuda"))
        around.prepare(x)
    except NotImplementedError:
        raise
    except Exception as error:
        watch.seen.refusal = watch.seen.refusal or refusals.unreadable(error)
        if not watch.seen.has_ended:
            raise
        return {**log, **watch.seen.told()}
    try:
        y = function(x)
    except NotImplementedError:
        raise
    except Exception as error:
        # a call that only compiles always ends so
        has_compiled = arguments["compiles"] and watch.seen.n_calls > 0
        is_refusal = arguments["may_refuse"] and _refuses(error)
        watch.seen.refusal = watch.seen.refusal or refusals.unreadable(error)
        if not (watch.seen.has_ended or has_compiled or is_refusal):
            raise
        log["raised"] = f"{type(error).__name__}: {error}"
    else:
        log["returned"] = _returned(y, arguments)
        log["is_changed"] = not _same(x, before)
    # raises where the GPU is lost, whatever the call made of it
    log["pending"] = around.pending()
    return {**log, **watch.seen.told()}


def _refuses(error: Exception) -> bool:
    """Whether an exception says no to an argument: TORCH_CHECK, assert, or a ValueError."""
    is_meant = isinstance(error, (RuntimeError, ValueError, AssertionError))
    return is_meant and "CUDA error" not in str(error)


def _returned(y: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if type(y) is not torch.Tensor:
        return {"kind": type(y).__name__, "shape": [], "dtype": "", "values": []}
    dtype = str(y.dtype).removeprefix("torch.")
    form = {"kind": "Tensor", "shape": list(y.shape), "dtype": dtype}
    if y.dtype is not torch.float32:
        return {**form, "values": []}
    flat = y.detach().cpu().flatten()
    # unlike .tolist(), this keeps every bit of a NaN
    kept = flat[shown_places(flat.numel(), arguments["seed"])].contiguous()
    data = kept.numpy().tobytes()
    chunks = range(0, len(data), _CHUNK_BYTES)
    return {
        **form,
        "values": [base64.b64encode(data[i : i + _CHUNK_BYTES]).decode() for i in chunks],
    }


def _same(x: torch.Tensor, before: torch.Tensor) -> bool:
    return bool(torch.equal(x.cpu(), before.cpu()))
