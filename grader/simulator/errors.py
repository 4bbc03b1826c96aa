"""What the simulator refuses, and why; and the line of the kernel that is running."""

from __future__ import annotations

import builtins
import linecache
import sys
from types import FrameType
from typing import Any, NoReturn

# kernels run with these builtins, which is also how their frames are recognised
KERNEL_BUILTINS: dict[str, Any] = dict(vars(builtins))


def kernel_frame() -> FrameType | None:
    """The innermost frame that runs a kernel, or None on the host."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  inspect.stack() reads every source file
    while frame is not None and frame.f_builtins is not KERNEL_BUILTINS:
        frame = frame.f_back
    return frame


def source_line(file: str, line: int) -> str:
    """The student's own line, without indentation; empty when the file cannot be read."""
    return linecache.getline(file, line).strip()


def _located(message: str) -> str:
    frame = kernel_frame()
    if frame is None:
        return message
    return located_at(frame.f_code.co_filename, frame.f_lineno, message)


def located_at(file: str, line: int, message: str) -> str:
    """A message with its place before it and the student's own line after it."""
    return f"{file}:{line}: {message}\n    {source_line(file, line)}"


class CompilationError(Exception):
    """The real compiler refuses this kernel. The message says where, what and what to write."""

    def __init__(self, message: str) -> None:
        super().__init__(_located(message))


class StaticAssertError(CompilationError):
    """A tl.static_assert does not hold; @triton.autotune passes such a config over."""


class UnsupportedError(Exception):
    """Real Triton may well run this; the simulator does not. Says what to use instead."""

    def __init__(self, message: str) -> None:
        super().__init__(_located(message))


class MissingNameError(UnsupportedError, AttributeError):
    """A name of Triton that the simulator does not have; hasattr() says so without an error."""


class DeadlockError(Exception):
    """Programs wait for each other, or for something no program does."""


def refuse(message: str) -> NoReturn:
    """Raise a CompilationError, located at the kernel's current line."""
    raise CompilationError(message)
