"""Precision lift: every floating type is stored and computed as float64, but still declared.

Gradients can then be checked against finite differences to seven digits. A TorchFunctionMode keeps
the declared dtypes visible to host code: ``x.dtype``, asserts, factories and casts behave as if
nothing had happened. The declaration is a mark on the storage, so views, detached tensors and what
autograd unpacks share it. Not covered: reinterpreting casts such as ``x.view(torch.int32)``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from grader.simulator import dtypes, fresh, modes

_LIFTED = {torch.float16, torch.bfloat16, torch.float32}
_CASTS = {
    torch.Tensor.float: torch.float32,
    torch.Tensor.half: torch.float16,
    torch.Tensor.bfloat16: torch.bfloat16,
    torch.Tensor.double: torch.float64,
}
_ABOUT_DTYPES = {torch.promote_types, torch.can_cast}


def declare(tensor: torch.Tensor, dtype_name: str) -> torch.Tensor:
    """Declare the dtype ("float16", ...) of a float64 tensor; returns the tensor."""
    fresh.declare_storage(tensor, dtype_name)
    return tensor


def declared_dtype(tensor: torch.Tensor) -> str:
    """The dtype host code sees while lifted; otherwise the tensor's own."""
    with modes.bare():
        if tensor.dtype == torch.float64:
            name = fresh.declared_or_none(tensor)
            if name is None and dtypes.is_lifted():
                name = fresh.declared_name(tensor)
            return name or "float64"
        return str(tensor.dtype).removeprefix("torch.")


@contextlib.contextmanager
def lifted(default: str = "float32") -> Iterator[None]:
    """Compute in float64 in this block, in kernels and in host code.

    Args:
        default: Declared dtype of float64 tensors that nobody declared.
    """
    if dtypes.is_lifted():
        raise RuntimeError("precision is lifted already")
    fresh.set_default(default)
    dtypes.set_lifted(on=True)
    try:
        with modes.entered(_Lift()):
            yield
    finally:
        dtypes.set_lifted(on=False)


def _declared(tensor: torch.Tensor) -> torch.dtype:
    """Declared dtype of any tensor."""
    if tensor.dtype != torch.float64:
        return tensor.dtype
    found: torch.dtype = getattr(torch, fresh.declared_name(tensor))
    return found


def _result_dtype(tensors: list[torch.Tensor]) -> torch.dtype | None:
    """What torch would promote the declared floating dtypes to: tensors with axes come first."""
    floating = [t for t in tensors if t.dtype.is_floating_point]
    decisive = [t for t in floating if t.ndim] or floating
    if not decisive:
        return None
    wanted = _declared(decisive[0])
    for tensor in decisive[1:]:
        wanted = torch.promote_types(wanted, _declared(tensor))
    return wanted


class _Lift(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":
            getter = getattr(getattr(func, "__self__", None), "__name__", "")
            if getter in _GETTERS:
                with modes.bare():
                    return _GETTERS[getter](args[0])
        elif func in _METHODS:
            with modes.bare():
                answer = _METHODS[func](*args, **kwargs)
            if answer is not NotImplemented:
                return answer
        elif func in _ABOUT_DTYPES:
            return func(*args, **kwargs)
        return self._run(func, args, kwargs)

    def _run(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with modes.bare():
            given = [leaf for leaf in tree_iter((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            asked = _asked_dtype(func, args, kwargs)
            wanted = asked or _result_dtype(given)
            storages = {t.untyped_storage().data_ptr() for t in given}
        run = torch.Tensor.double if func in _CASTS else func
        made = run(
            *(_lifted_dtype(a) for a in args), **{k: _lifted_dtype(v) for k, v in kwargs.items()}
        )
        with modes.bare():
            if isinstance(made, torch.Tensor):
                cast = asked is not None and given and func in _CASTING
                return _label(made, wanted, storages if cast else set())
            if isinstance(made, tuple | list):
                parts = [
                    _label(m, wanted, set()) if isinstance(m, torch.Tensor) else m for m in made
                ]
                if any(a is not b for a, b in zip(parts, made, strict=True)):
                    return type(made)(parts)
        return made


def _asked_dtype(func: Callable[..., Any], args: Any, kwargs: Any) -> torch.dtype | None:
    """The floating dtype that the call names, if any."""
    if func in _CASTS:
        return _CASTS[func]
    if func is torch.Tensor.type_as or (
        func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], torch.Tensor)
    ):
        return _declared(args[1])
    for value in (*args, kwargs.get("dtype"), kwargs.get("other")):
        if isinstance(value, torch.dtype) and value.is_floating_point:
            return value
    return None


def _lifted_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _LIFTED else value


def _label(made: torch.Tensor, wanted: torch.dtype | None, originals: set[int]) -> torch.Tensor:
    """Lift a result, and declare it unless its storage is declared already."""
    if made.dtype in _LIFTED:
        # a factory that used torch's default dtype
        wanted = made.dtype
        made = (
            made.double()
            if not made.is_leaf
            else made.detach().double().requires_grad_(made.requires_grad)
        )
    if made.dtype != torch.float64:
        return made
    before = fresh.declared_or_none(made)
    if wanted is None:
        return made
    name = str(wanted).removeprefix("torch.")
    if made.untyped_storage().data_ptr() in originals and (_declared(made) != wanted):
        # a cast from one lifted dtype to another makes a new tensor, as the real one does
        made = made.clone()
        before = None
    if before is None:
        fresh.declare_storage(made, name)
    return made


def _element_size(tensor: torch.Tensor) -> int:
    return _declared(tensor).itemsize


def _type(tensor: torch.Tensor, dtype: Any = None, *_: Any, **__: Any) -> Any:
    if dtype is None:
        return torch.empty(0, dtype=_declared(tensor)).type()
    return NotImplemented


def _result_type(a: Any, b: Any) -> torch.dtype:
    def stand_in(x: Any) -> Any:
        return torch.empty((1,) * min(x.ndim, 1), dtype=_declared(x)) if torch.is_tensor(x) else x

    return torch.result_type(stand_in(a), stand_in(b))


_CASTING = {torch.Tensor.to, torch.Tensor.type, torch.Tensor.type_as, *_CASTS}
_GETTERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dtype": _declared,
    "itemsize": _element_size,
    "nbytes": lambda t: t.numel() * _element_size(t),
}
_METHODS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.element_size: _element_size,
    torch.Tensor.type: _type,
    torch.result_type: _result_type,
}
