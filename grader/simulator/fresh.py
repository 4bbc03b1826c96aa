"""Marks on storages: which elements nobody has written yet, and which dtype was declared.

A mark lives on the storage, so views, detached tensors and what autograd unpacks share it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

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
    """Whether there is a storage to look at: none of a sparse tensor, under vmap, or in a trace."""
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return False
    return True


class Mark:
    """Written-map of one storage from torch.empty, valid while torch has not written unseen."""

    def __init__(self, version: int, written: Array) -> None:
        self.version = version
        self.written = written
        # kernel, file and line of its definition
        self.last_writer: tuple[str, tuple[str, int]] | None = None


@hide_from_dynamo
def mark_unwritten(tensor: torch.Tensor, before: Array | None = None) -> None:
    """Note that nobody wrote this tensor's storage yet, and poison it with NaN.

    Args:
        tensor: Its first element, if any, is that of the storage.
        before: Of a storage that has grown, which of its first elements were written.
    """
    first = 0 if before is None else before.size
    if tensor.device.type != "cpu" or not tensor.numel() or not _can_be_marked(tensor):
        return
    storage = tensor.untyped_storage()
    n_elements = storage.nbytes() // tensor.element_size()
    if n_elements <= first:
        return
    if tensor.is_floating_point() and tensor.dtype in FROM_TORCH:
        # not fill_, whose threads cost milliseconds on a busy machine
        elements(storage, FROM_TORCH[tensor.dtype].storage)[first:].fill(np.nan)
    written = np.zeros(n_elements, np.bool_)
    written[:first] = before
    _set(tensor, written, None)


def mark_of(tensor: torch.Tensor, storage: torch.UntypedStorage, n_elements: int) -> Mark | None:
    """The mark of a storage of n elements; None when all of it was written, or torch wrote it."""
    mark: Mark | None = getattr(storage, _UNWRITTEN, None)
    if mark is None:
        return None
    version = tensor._version  # noqa: SLF001  the only way to see that torch wrote
    if mark.version != version or mark.written.size != n_elements:
        forget(tensor)
        return None
    return mark


def _can_be_marked(tensor: torch.Tensor) -> bool:
    """Whether it shows that torch writes: tensors of inference_mode count no versions."""
    return has_memory(tensor) and not tensor.is_inference()


def mark_if_any(tensor: torch.Tensor) -> Mark | None:
    """The mark of a tensor's storage."""
    if not has_memory(tensor):
        return None
    storage = tensor.untyped_storage()
    if not hasattr(storage, _UNWRITTEN):
        return None
    return mark_of(tensor, storage, storage.nbytes() // tensor.element_size())


def window(mark: Mark, tensor: torch.Tensor) -> torch.Tensor:
    """Which elements of a tensor were written: of its shape, into the mark itself."""
    return torch.as_strided(
        torch.from_numpy(mark.written), tensor.shape, tensor.stride(), tensor.storage_offset()
    )


def update(mark: Mark, tensor: torch.Tensor) -> None:
    """What torch has just written is accounted for in the mark."""
    if mark.written.all():
        forget(tensor)
    else:
        mark.version = tensor._version  # noqa: SLF001  as above


def forget(tensor: torch.Tensor) -> None:
    """All of this tensor's storage counts as written from now on."""
    storage = tensor.untyped_storage()
    if hasattr(storage, _UNWRITTEN):
        delattr(storage, _UNWRITTEN)


def carry_over(source: torch.Tensor, copy: torch.Tensor) -> None:
    """What nobody wrote in a tensor, nobody wrote in its copy."""
    mark = mark_if_any(source)
    if mark is None or copy.shape != source.shape or not _can_be_marked(copy):
        return
    n_elements = copy.untyped_storage().nbytes() // copy.element_size()
    _set(copy, np.ones(n_elements, np.bool_), mark.last_writer)
    copied = getattr(copy.untyped_storage(), _UNWRITTEN)
    window(copied, copy).copy_(window(mark, source))
    update(copied, copy)


def _set(
    tensor: torch.Tensor, written: Array, last_writer: tuple[str, tuple[str, int]] | None
) -> None:
    mark = Mark(tensor._version, written)  # noqa: SLF001  as above
    mark.last_writer = last_writer
    setattr(tensor.untyped_storage(), _UNWRITTEN, mark)
