"""Keeps torch.compile out of the simulator."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

Function = TypeVar("Function")


def hide_from_dynamo(function: Function) -> Function:
    """Neither trace into a function nor compile the frames below it.

    torch.compiler.disable would do the same, but imports dynamo (a second) in every worker.
    """
    hidden: Any = function
    frames = torch._C._dynamo.eval_frame  # noqa: SLF001 - has no public name
    skip = frames._FrameAction.SKIP  # noqa: SLF001
    frames.set_code_exec_strategy(hidden.__code__, frames._FrameExecStrategy(skip, skip))  # noqa: SLF001
    hidden._torchdynamo_disable = True  # noqa: SLF001 - what torch.compiler.disable sets
    return function
