"""Keeps torch.compile out of the simulator, and the simulator out of torch.compile."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from unittest import mock

import torch

Function = TypeVar("Function")


def hide_from_dynamo(function: Function) -> Function:
    """Neither trace into a function nor compile the frames below it.

    torch.compiler.disable would do the same, but imports dynamo (a second) in every worker.
    """
    hidden: Any = function
    frames = torch._C._dynamo.eval_frame  # noqa: SLF001  has no public name
    skip = frames._FrameAction.SKIP  # noqa: SLF001
    frames.set_code_exec_strategy(hidden.__code__, frames._FrameExecStrategy(skip, skip))  # noqa: SLF001
    hidden._torchdynamo_disable = True  # noqa: SLF001  what torch.compiler.disable sets
    return function


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Let functions under torch.compile run as plain Python in this block.

    They compute the same. A first compilation would take longer than a case may, and a compiled
    function hides from the simulator what it allocates, casts and asks of its tensors.
    """
    with contextlib.ExitStack() as stack:
        # what is not loaded yet has compiled nothing; loading it takes a second
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(mock.patch.object(torch, "compile", _as_it_is))
        yield


def _as_it_is(model: Callable[..., Any] | None = None, **_options: Any) -> Any:
    """In the place of torch.compile, called or as a decorator with options."""
    return model if model is not None else _as_it_is
