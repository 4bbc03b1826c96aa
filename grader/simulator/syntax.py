"""What the real compiler refuses by syntax alone, checked before a kernel's first launch."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable
from typing import Any

from grader.simulator.errors import CompilationError
from grader.simulator.values import constexpr

_REFUSED: dict[type[ast.AST], str] = {
    ast.Break: "Triton does not compile `break`; put the condition into the loop's bounds",
    ast.Continue: "Triton does not compile `continue`; use `if`",
    ast.Try: "Triton does not compile `try`",
    ast.Raise: "Triton does not compile `raise`; use tl.static_assert or tl.device_assert",
    ast.Lambda: "Triton does not compile `lambda`; write a @triton.jit function",
    ast.Yield: "Triton does not compile `yield`",
    ast.Global: "Triton does not compile `global`; pass the value as an argument",
    ast.Dict: "Triton does not compile dictionaries",
    ast.Import: "Triton does not compile `import`; import at the top of the file",
    ast.ImportFrom: "Triton does not compile `import`; import at the top of the file",
}


def check(fn: Callable[..., Any]) -> None:
    """Refuse what no kernel may contain.

    Raises:
        CompilationError: With file, line and the student's source line.
    """
    _check_statements(fn)
    _check_globals(fn)


def _refuse(fn: Any, line: int, message: str) -> None:
    file = fn.__code__.co_filename
    text = linecache.getline(file, line).strip()
    raise CompilationError(f"{file}:{line}: {message}\n    {text}")


def _check_statements(fn: Any) -> None:
    try:
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        # no source, as for code made by exec: the running kernel still checks its operations
        return
    # the decorators above the function may contain anything
    body = getattr(tree.body[0], "body", [])
    for node in (n for statement in body for n in ast.walk(statement)):
        line = first - 1 + getattr(node, "lineno", 1)
        if type(node) in _REFUSED:
            _refuse(fn, line, _REFUSED[type(node)])
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            _refuse(fn, line, "Triton does not compile chained comparisons; write a < b and b < c")


def _check_globals(fn: Any) -> None:
    """A kernel sees modules, @triton.jit functions, types and tl.constexpr globals, no others."""
    line = fn.__code__.co_firstlineno
    for instruction in dis.get_instructions(fn):
        if instruction.starts_line is not None:
            line = _line_of(instruction, line)
        name = instruction.argval
        if instruction.opname != "LOAD_GLOBAL" or name not in fn.__globals__:
            continue
        value = fn.__globals__[name]
        if _is_plain_data(value) and not _is_annotated_constexpr(fn, name):
            _refuse(
                fn,
                line,
                f"cannot access global variable {name} in a @triton.jit function: make it "
                f"{name} = tl.constexpr({value!r}), or pass it as an argument",
            )
        if isinstance(value, types.FunctionType) and not str(value.__module__).startswith(
            "grader."
        ):
            _refuse(
                fn,
                line,
                f"{name} is a plain Python function: decorate it with @triton.jit to use it",
            )


def _line_of(instruction: dis.Instruction, line: int) -> int:
    # Python 3.13 made starts_line a flag and added line_number
    number = getattr(instruction, "line_number", instruction.starts_line)
    return line if number is None else int(number)


def _is_plain_data(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | list | dict) and not isinstance(
        value, constexpr
    )


def _is_annotated_constexpr(fn: Any, name: str) -> bool:
    return "constexpr" in str(fn.__globals__.get("__annotations__", {}).get(name, ""))
