"""What an error raised while a kernel ran means: whose it is, and in words of the kernel language."""

from __future__ import annotations

import ast
import linecache
import re
import types
from pathlib import Path
from typing import Any

from grader.simulator.errors import (
    KERNEL_BUILTINS,
    CompilationError,
    UnsupportedError,
    located_at,
)

_GRADER = Path(__file__).resolve().parent.parent
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
# how Python begins when arguments do not fit a function, by the name that the function has to us
_MISFIT = re.compile(r"^[\w.<>]+\(\) (?=takes |got |missing )")


def explained(error: Exception) -> Exception:
    """The error to raise instead, or the same one.

    Raised by the kernel's own line, or by what a library does that the line calls, it is the
    student's: the compiler would stop there too. Raised in the simulator, it is a lack of the
    simulator, and nobody's mistake.
    """
    if isinstance(error, UnsupportedError) or not isinstance(error, _PYTHON_ERRORS):
        return error
    at, below = _in_kernel(error)
    if at is None:
        return UnsupportedError(f"the simulator cannot run this kernel ({_told(error)})")
    file, line = at.tb_frame.f_code.co_filename, at.tb_lineno
    if isinstance(error, RecursionError):
        return CompilationError(
            located_at(file, line, "a @triton.jit function may not call itself")
        )
    if below is not None and Path(below.tb_frame.f_code.co_filename).is_relative_to(_GRADER):
        what = f"the simulator cannot run this line ({_told(error)})"
        return UnsupportedError(located_at(file, line, what))
    called = _called(at)
    what = _of_the_host(called, at.tb_frame.f_globals) or _renamed(_told(error), called)
    return CompilationError(located_at(file, line, what))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _in_kernel(
    error: Exception,
) -> tuple[types.TracebackType | None, types.TracebackType | None]:
    """The innermost frame of a kernel, and the one below it."""
    at, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_builtins is KERNEL_BUILTINS:
            at = traceback
        traceback = traceback.tb_next
    return at, None if at is None else at.tb_next


def _called(at: types.TracebackType) -> str:
    """What the line was calling, as written, such as ``tl.exp``; empty where that is not plain."""
    code = at.tb_frame.f_code
    position = list(code.co_positions())[at.tb_lasti // 2]
    line, last, start, end = position
    if line is None or last != line or start is None:
        return ""
    # columns count bytes
    text = linecache.getline(code.co_filename, line).encode()[start:end].decode(errors="replace")
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return ""
    return ast.unparse(call.func) if isinstance(call, ast.Call) else ""


def _of_the_host(called: str, names: dict[str, Any]) -> str:
    """That a function of torch or NumPy has no place in a kernel; empty if it is none."""
    owner, _, function = called.rpartition(".")
    module = names.get(owner.partition(".")[0])
    if not isinstance(module, types.ModuleType) or _is_triton(module):
        return ""
    language = next((n for n, v in names.items() if _has(v, function)), "")
    instead = (
        f"write {language}.{function}"
        if language
        else "compute it with functions of triton.language, or on the host before the launch"
    )
    return f"{called} works on the host, not in a kernel: {instead}"


def _is_triton(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] == "triton"


def _has(value: Any, function: str) -> bool:
    is_language = isinstance(value, types.ModuleType) and value.__name__ == "triton.language"
    return is_language and hasattr(value, function)


def _renamed(told: str, called: str) -> str:
    """With the function's name as the kernel has it."""
    _, _, message = told.partition(": ")
    return f"{called}() {_MISFIT.sub('', message)}" if called and _MISFIT.match(message) else told
