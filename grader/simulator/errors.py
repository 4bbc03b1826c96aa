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
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads every source file
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
    return _at(frame.f_code.co_filename, frame.f_lineno, message)


def _at(file: str, line: int, message: str) -> str:
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


# what Python raises for a line that no compiler would take, such as a misspelt name
_PYTHON_ERRORS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    NameError,
    ArithmeticError,
    RecursionError,
)


def explained(error: Exception) -> Exception:
    """What an error raised while a kernel ran means.

    Raised by the kernel's own line, it is the student's: the compiler would stop there too. Raised
    below it, in the simulator, it is a lack of the simulator, and nobody's mistake.
    """
    if isinstance(error, UnsupportedError) or not isinstance(error, _PYTHON_ERRORS):
        return error
    file, line, innermost_is_kernel = "?", 0, False
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        innermost_is_kernel = frame.f_builtins is KERNEL_BUILTINS
        if innermost_is_kernel:
            file, line = frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
    if isinstance(error, RecursionError):
        return CompilationError(_at(file, line, "a @triton.jit function may not call itself"))
    what = f"{type(error).__name__}: {error}"
    if innermost_is_kernel:
        return CompilationError(_at(file, line, what))
    return UnsupportedError(_at(file, line, f"the simulator cannot run this line ({what})"))
