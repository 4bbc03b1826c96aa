"""Entering the simulator's torch function modes, so that they also hold while autograd runs.

torch switches all modes off around ``backward()`` and ``torch.autograd.grad``; a student's backward
would then see a machine without a GPU. Here they are entered again around autograd's engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

# a context in which no mode takes part
bare: Any = torch._C.DisableTorchFunction  # noqa: SLF001  has no public name

_active: list[TorchFunctionMode] = []
_run_backward: Any = torch.autograd._engine_run_backward  # type: ignore[attr-defined] # noqa: SLF001


@contextlib.contextmanager
def entered(mode: TorchFunctionMode) -> Iterator[None]:
    """Keep a mode active in this block, in forward and backward."""
    _active.append(mode)
    try:
        with mock.patch.object(torch.autograd, "_engine_run_backward", _with_modes), mode:
            yield
    finally:
        _active.pop()


def _with_modes(*args: Any, **kwargs: Any) -> Any:
    if torch._C._len_torch_function_stack():  # noqa: SLF001  has no public name
        return _run_backward(*args, **kwargs)
    with contextlib.ExitStack() as stack:
        for mode in _active:
            stack.enter_context(mode)
        return _run_backward(*args, **kwargs)
