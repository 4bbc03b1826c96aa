"""Marks on storages: which elements nobody has written yet, and which dtype was declared.

A mark lives on the storage, so views, detached tensors and what autograd unpacks share it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from grader.simulator.dtypes import FROM_TORCH, Array
from grader.simulator.dynamo import hide_from_dynamo

_UNWRITTEN = "_kernelgrade_unwritten"
_DECLARED = "_kernelgrade_declared"


class _Default:
    name = "float32"


def set_default(name: str) -> None:
    """Declared dtype of lifted tensors nobody declared."""
    _Default.name = name


def declare_storage(tensor: torch.Tensor, name: str) -> None:
    """Declare the dtype of a tensor's storage."""
    setattr(tensor.untyped_storage(), _DECLARED, name)


def declared_or_none(tensor: torch.Tensor) -> str | None:
    """The declared dtype of a tensor's storage, if any."""
    name: str | None = getattr(tensor.untyped_storage(), _DECLARED, None)
    return name


def declared_name(tensor: torch.Tensor) -> str:
    """Declared dtype of a float64 tensor while lifted."""
    return declared_or_none(tensor) or _Default.name


def elements(storage: torch.UntypedStorage, element: np.dtype[np.generic]) -> Array:
    """The elements of a storage, in place."""
    n_bytes = storage.nbytes() // element.itemsize * element.itemsize
    if not n_bytes:
        return np.zeros(0, element)
    memory: Any = (ctypes.c_char * n_bytes).from_address(storage.data_ptr())
    found: Array = np.frombuffer(memory, dtype=element)
    return found


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether there is a storage to look at: none of a sparse tensor, or while torch compiles."""
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return False
    return True


class Mark:
    """Written-map of one storage from torch.empty, valid while torch itself has not written."""

    def __init__(self, version: int, n_elements: int) -> None:
        self.version = version
        self.written = np.zeros(n_elements, np.bool_)
        # kernel, file and line of its definition
        self.last_writer: tuple[str, tuple[str, int]] | None = None


@hide_from_dynamo
def mark_unwritten(tensor: torch.Tensor) -> None:
    """Note that nobody wrote this tensor yet, and poison it with NaN."""
    if tensor.device.type != "cpu" or not tensor.numel() or not has_memory(tensor):
        return
    storage = tensor.untyped_storage()
    if tensor.is_floating_point() and tensor.dtype in FROM_TORCH:
        # not fill_, whose threads cost milliseconds on a busy machine
        elements(storage, FROM_TORCH[tensor.dtype].storage).fill(np.nan)
    version = tensor._version  # noqa: SLF001 - the only way to see that torch wrote
    setattr(storage, _UNWRITTEN, Mark(version, storage.nbytes() // tensor.element_size()))


def mark_of(tensor: torch.Tensor, storage: torch.UntypedStorage, n_elements: int) -> Mark | None:
    """The mark of a storage of n elements; None when all of it was written, or torch wrote it."""
    mark: Mark | None = getattr(storage, _UNWRITTEN, None)
    if mark is None:
        return None
    if mark.version != tensor._version or mark.written.size != n_elements:  # noqa: SLF001 - as above
        delattr(storage, _UNWRITTEN)
        return None
    return mark


_FACTORIES = {torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty}
_FACTORIES |= {torch.Tensor.new_empty_strided, torch.empty_permuted}


def _forget(written: Any) -> None:
    """Torch writes this tensor."""
    if isinstance(written, torch.Tensor) and hasattr(written.untyped_storage(), _UNWRITTEN):
        delattr(written.untyped_storage(), _UNWRITTEN)


# in place, but no element changes
_WRITES_NOTHING = {"requires_grad_", "detach_", "share_memory_", "t_", "transpose_", "squeeze_"}
_WRITES_NOTHING |= {"unsqueeze_", "swapaxes_", "swapdims_", "as_strided_", "resize_"}
_WRITING = {
    "__setitem__",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
    "__ior__",
    "__iand__",
}


def _writes(name: str) -> bool:
    """Whether a function of torch, by its name, changes its first argument."""
    in_place = name.endswith("_") and not name.endswith("__") and name not in _WRITES_NOTHING
    return in_place or name in _WRITING


class WatchFresh(TorchFunctionMode):
    """While active, results of torch.empty and its kin count as unwritten."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Mark what the factories return."""
        if torch.compiler.is_compiling():
            # dynamo traces through here, and what it compiles has no storage to look at
            return func(*args, **(kwargs or {}))
        made = func(*args, **(kwargs or {}))
        if _writes(getattr(func, "__name__", "")):
            # also through x.data, whose version torch counts apart
            with torch._C.DisableTorchFunction():  # noqa: SLF001 - has no public name
                _forget(args[0] if args else None)
        if func in _FACTORIES and isinstance(made, torch.Tensor):
            with torch._C.DisableTorchFunction():  # noqa: SLF001 - has no public name
                mark_unwritten(made)
        return made
