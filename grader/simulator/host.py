"""Host code written for CUDA runs unchanged on CPU tensors.

Tensors say that they are on cuda:0, "cuda" is a device that factories accept, and torch.cuda answers
as on a GPU. A tensor made without a device, or moved by ``.cpu()``, says "cpu", and a kernel refuses
it as a real one would. Not covered: CUDA graphs, memory statistics, cuda generators; inductor, which
``uncompiled`` keeps away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.utils._device as torch_device
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from grader.simulator import fresh, host_cuda, host_marks, modes

_constructors: Any = torch_device._device_constructors  # noqa: SLF001  has no public name
_CPU = torch.device("cpu")


@contextlib.contextmanager
def pretend_gpu() -> Iterator[None]:
    """Let host code in this block believe that there is one CUDA device."""
    host_marks.start_pretending()
    try:
        with (
            mock.patch.multiple(torch.cuda, **host_cuda.functions()),
            mock.patch.multiple(torch.cuda.nvtx, **host_cuda.marks()),
            modes.entered(_Pretend()),
            _default_device(),
        ):
            yield
    finally:
        host_marks.stop_pretending()


class _Asked:
    default: torch.device | None = None  # what host code made the default device


@contextlib.contextmanager
def _default_device() -> Iterator[None]:
    """Let ``torch.set_default_device`` hold in these blocks, and nowhere else."""
    before = _default()
    if _Asked.default != before:
        torch.set_default_device(_Asked.default)
    try:
        yield
    finally:
        _Asked.default = _default()
        if _Asked.default != before:
            torch.set_default_device(before)


def _default() -> torch.device | None:
    # torch.get_default_device() answers where nothing was set, too
    device: torch.device | None = torch_device.CURRENT_DEVICE
    return device


def _device(tensor: torch.Tensor) -> torch.device:
    return _CPU if host_marks.is_cpu(tensor) else host_cuda.DEVICE


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"


def _is_device(value: Any) -> bool:
    if isinstance(value, torch.device):
        return True
    return isinstance(value, str) and value.partition(":")[0] in {"cuda", "cpu"}


class _Pretend(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            # dynamo traces through here, and what it compiles has no storage to look at
            return func(*args, **kwargs)
        if getattr(func, "__name__", "") == "__get__":
            getter = getattr(getattr(func, "__self__", None), "__name__", "")
            if getter in _GETTERS:
                with modes.bare():
                    return _GETTERS[getter](args[0])
        elif func in _METHODS:
            with modes.bare():
                return _METHODS[func](*args, **kwargs)
        elif func is torch.device:
            return func(*args, **kwargs)
        if kwargs.get("device") is None and _is_cuda(_default()) and func in _constructors():
            kwargs = {**kwargs, "device": _default()}
        with modes.bare():
            given = [leaf for leaf in tree_iter((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            on_cpu = _lands_on_cpu(func, given, args, kwargs)
        made = func(
            *(_cpu_for_cuda(a) for a in args), **{k: _cpu_for_cuda(v) for k, v in kwargs.items()}
        )
        with modes.bare():
            return _settle(made, given, on_cpu=on_cpu)


def _cpu_for_cuda(value: Any) -> Any:
    return _CPU if _is_cuda(value) else value


def _lands_on_cpu(func: Any, given: list[torch.Tensor], args: Any, kwargs: Any) -> bool:
    """Whether the result is in the host's memory, in a real run."""
    asked = [v for v in (*args, kwargs.get("device")) if _is_device(v)]
    if asked:
        return not _is_cuda(asked[-1])
    if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], torch.Tensor):
        return host_marks.is_cpu(args[1])
    if func in _TO_CUDA:
        return False
    with_axes = [t for t in given if t.ndim] or given
    return all(host_marks.is_cpu(t) for t in with_axes)


def _settle(made: Any, given: list[torch.Tensor], *, on_cpu: bool) -> Any:
    """Mark a result that lives on the CPU; move one that crosses over."""
    if not isinstance(made, torch.Tensor) or made.layout is not torch.strided:
        return made
    if not all(fresh.has_memory(tensor) for tensor in (made, *given)):
        return made
    shared = {t.untyped_storage().data_ptr() for t in given}
    if made.untyped_storage().data_ptr() not in shared or not made.numel():
        if on_cpu:
            host_marks.mark_cpu(made)
        return made
    if host_marks.is_cpu(made) != on_cpu and made.numel():
        # the same storage on the other device would be a copy
        made = _copy(made)
        if on_cpu:
            host_marks.mark_cpu(made)
    return made


def _to_host(tensor: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
    if host_marks.is_cpu(tensor):
        return tensor
    copy = _copy(tensor)
    host_marks.mark_cpu(copy)
    return copy


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy; of what nobody wrote, nobody wrote it either."""
    copy = tensor.clone()
    fresh.carry_over(tensor, copy)
    return copy


def _to_cuda(tensor: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
    return _copy(tensor) if host_marks.is_cpu(tensor) else tensor


_GETTERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "device": _device,
    "is_cuda": lambda t: not host_marks.is_cpu(t),
    "is_cpu": host_marks.is_cpu,
}
_TO_CUDA = {torch.Tensor.cuda}
_METHODS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.cuda: _to_cuda,
    torch.Tensor.cpu: _to_host,
    torch.Tensor.get_device: lambda t: -1 if host_marks.is_cpu(t) else 0,
    torch.Tensor.pin_memory: lambda t, *_: t,
    torch.Tensor.is_pinned: lambda t, *_: False,
    torch.Tensor.record_stream: lambda t, stream: None,
}
