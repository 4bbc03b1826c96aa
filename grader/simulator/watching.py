"""Sees what torch itself does with memory from torch.empty: writes all or part of it, copies it, reads it.

What it cannot follow counts as written, so that nobody is accused falsely: writes through NumPy, and
through what torch counts apart from the tensor, such as x.data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from grader.simulator import fresh, host_marks, modes
from grader.simulator.dtypes import Array

OnRead = Callable[[torch.Tensor], None]

_FACTORIES = {torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty}
_FACTORIES |= {torch.Tensor.new_empty_strided, torch.empty_permuted}
_RESIZING = {"resize_", "resize_as_"}
# in place, but no element changes
_WRITES_NOTHING = {"requires_grad_", "detach_", "share_memory_", "t_", "transpose_", "squeeze_"}
_WRITES_NOTHING |= {"unsqueeze_", "swapaxes_", "swapdims_", "as_strided_", "set_", "rename_"}
_WRITES_NOTHING |= _RESIZING
_WRITING = {
    "__setitem__",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
    "__ior__",
    "__iand__",
}
# the same elements in memory of their own
_COPYING = {
    "clone",
    "contiguous",
    "to",
    "type",
    "cuda",
    "cpu",
    "float",
    "double",
    "half",
    "bfloat16",
}
_COPYING |= {"int", "long", "short", "char", "bool", "detach_copy"}
# memory that others may write from then on, unseen
_HANDING_OUT = {"numpy", "__array__", "__dlpack__"}
# what looks at elements and gives no tensor
_LOOKING = {
    "tolist",
    "item",
    "numpy",
    "__array__",
    "__repr__",
    "__format__",
    "__bool__",
    "__float__",
}
_LOOKING |= {"__int__", "__index__", "__contains__", "allclose", "equal", "is_nonzero", "save"}
_LOOKING |= {"assert_close"}


class Watch(TorchFunctionMode):
    """While active, results of torch.empty and its kin count as unwritten.

    Args:
        on_read: Called with a tensor that torch is about to read, and that a kernel left partly
            unwritten.
    """

    def __init__(self, on_read: OnRead | None = None) -> None:
        super().__init__()
        self._on_read = on_read

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Mark what the factories return, and follow what becomes of it."""
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            # dynamo traces through here, and what it compiles has no storage to look at
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        with modes.bare():
            written = [(t, fresh.mark_if_any(t)) for t in _written(name, args, kwargs)]
            before = _written_before(args[0]) if name in _RESIZING else None
            read = [] if self._on_read is None else _marked(args, kwargs)
            if name in _LOOKING:
                self._tell(read)
        made = func(*args, **kwargs)
        with modes.bare():
            for tensor, mark in written:
                if mark is not None:
                    _account(name, tensor, mark, args)
            if name in _RESIZING:
                fresh.mark_unwritten(made, before)
            elif not _is_settled(func, name, made, args) and _computes(name, made):
                self._tell([t for t in read if _is_apart(made, t)])
        return made

    def _tell(self, read: list[torch.Tensor]) -> None:
        for tensor in read:
            assert self._on_read is not None
            self._on_read(tensor)


def _is_settled(func: Callable[..., Any], name: str, made: Any, args: tuple[Any, ...]) -> bool:
    """Mark what is new and unwritten, or may be written unseen; whether it was one of these."""
    if func in _FACTORIES or (func is torch.Tensor.new and _are_sizes(args[1:])):
        if isinstance(made, torch.Tensor):
            fresh.mark_unwritten(made)
        return True
    if name in _COPYING and args and _is_apart(made, args[0]):
        fresh.carry_over(args[0], made)
        return True
    if name in _HANDING_OUT and args:
        fresh.forget(args[0])
        return True
    return False


def _written(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that a function of torch, by its name, writes."""
    in_place = name.endswith("_") and not name.endswith("__") and name not in _WRITES_NOTHING
    targets = [args[0]] if args and (in_place or name in _WRITING) else []
    if kwargs.get("out") is not None:
        targets.append(kwargs["out"])
    if not targets:
        return []
    return [t for t in tree_iter(targets) if isinstance(t, torch.Tensor)]


def _account(name: str, tensor: torch.Tensor, mark: fresh.Mark, args: tuple[Any, ...]) -> None:
    """Note which elements were written; copies of what nobody wrote are none."""
    if mark.written.size != _n_elements(tensor):
        # out= was too small, and has other memory now
        fresh.forget(tensor)
        return
    window = fresh.window(mark, tensor)
    if name == "__setitem__":
        window[args[1]] = _are_written(args[2])
    elif name == "copy_":
        window.copy_(torch.as_tensor(_are_written(args[1])))
    else:
        window.fill_(True)
    fresh.update(mark, tensor)


def _are_written(source: Any) -> Any:
    """Which elements of what is copied were written."""
    mark = fresh.mark_if_any(source) if isinstance(source, torch.Tensor) else None
    return True if mark is None else fresh.window(mark, source).clone()


def _n_elements(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().nbytes() // tensor.element_size())


def _written_before(tensor: torch.Tensor) -> Array | None:
    """Before a tensor grows: which elements of its storage were written."""
    mark = fresh.mark_if_any(tensor)
    return np.ones(_n_elements(tensor), np.bool_) if mark is None else mark.written


def _are_sizes(given: tuple[Any, ...]) -> bool:
    """Whether arguments of torch.Tensor(...) are a shape; anything else is contents."""
    if len(given) == 1 and isinstance(given[0], torch.Size):
        return True
    return bool(given) and all(isinstance(n, int) for n in given)


def _is_apart(made: Any, tensor: Any) -> bool:
    """Whether a result has memory of its own."""
    if not isinstance(made, torch.Tensor) or not isinstance(tensor, torch.Tensor):
        return False
    if not fresh.has_memory(made) or not fresh.has_memory(tensor):
        return False
    return made.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


def _computes(name: str, made: Any) -> bool:
    """Whether a function looks at elements to make its tensors; not a view, a copy, a shape."""
    is_shaped = (
        name.endswith("_like") or name.startswith("new_") or name in {"copy_", "__setitem__"}
    )
    return isinstance(made, torch.Tensor) and not is_shaped


def _marked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors given whose memory came from torch.empty, and that a kernel has written since."""
    given = (t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor))
    found = []
    for tensor in given:
        mark = fresh.mark_if_any(tensor)
        if mark is not None and mark.last_writer is not None:
            found.append(tensor)
    return found


_real_new: Any = torch.Tensor.__new__


# no mode sees a constructor. Of any signature and never freed: dynamo, should it be imported meanwhile,
# registers what stands here
def _new(*args: Any, **kwargs: Any) -> Any:
    made = _real_new(*args, **kwargs)
    if args and args[0] is torch.Tensor:
        with modes.bare():
            if _are_sizes(args[1:]):
                fresh.mark_unwritten(made)
            if host_marks.is_pretending() and made.numel():
                # it heeds no default device
                host_marks.mark_cpu(made)
    return made


@contextlib.contextmanager
def watched(on_read: OnRead | None = None) -> Iterator[None]:
    """Follow memory from torch.empty, and from torch.Tensor(n), in this block."""
    with mock.patch.object(torch.Tensor, "__new__", _new), modes.entered(Watch(on_read)):
        yield
