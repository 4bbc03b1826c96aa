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

from grader.simulator.constants import constexpr
from grader.simulator.errors import CompilationError

_REFUSED: dict[type[ast.AST], str] = {
    ast.Break: "Triton does not compile `break`; put the condition into the loop's bounds",
    ast.Continue: "Triton does not compile `continue`; use `if`",
    ast.Try: "Triton does not compile `try`",
    ast.Raise: "Triton does not compile `raise`; use tl.static_assert or tl.device_assert",
    ast.Lambda: "Triton does not compile `lambda`; write a @triton.jit function",
    ast.Yield: "Triton does not compile `yield`",
    ast.Global: "Triton does not compile `global`; pass the value as an argument",
    ast.NamedExpr: "Triton does not compile `:=`",
    ast.Delete: "Triton does not compile `del`",
    ast.FunctionDef: "Triton does not compile a function inside a kernel; write it outside",
    ast.ClassDef: "Triton does not compile a class inside a kernel; write it outside",
    ast.SetComp: "Triton does not compile sets",
    ast.Set: "Triton does not compile sets",
    ast.DictComp: "Triton does not compile dictionaries",
    ast.Dict: "Triton does not compile dictionaries",
    ast.Import: "Triton does not compile `import`; import at the top of the file",
    ast.ImportFrom: "Triton does not compile `import`; import at the top of the file",
}


def check(fn: Callable[..., Any], constants: frozenset[str]) -> None:
    """Refuse what no kernel may contain.

    Args:
        fn: The kernel.
        constants: Its tl.constexpr parameters. A branch that depends on them alone may be one that
            the compiler never looks at, so it is not checked.

    Raises:
        CompilationError: With file, line and the student's source line.
    """
    try:
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        # no source, as for code made by exec: the running kernel still checks its operations
        return
    # the decorators above the function may contain anything
    for statement in getattr(tree.body[0], "body", []):
        _check_node(fn, statement, first - 1, constants, in_loop=False)
    _check_globals(fn)


def _refuse(fn: Any, line: int, message: str) -> None:
    file = fn.__code__.co_filename
    text = linecache.getline(file, line).strip()
    raise CompilationError(f"{file}:{line}: {message}\n    {text}")


def _check_node(
    fn: Any, node: ast.AST, offset: int, constants: frozenset[str], *, in_loop: bool
) -> None:
    reason = _REFUSED.get(type(node)) or _refused_form(node)
    if isinstance(node, ast.Return) and in_loop:
        reason = "Triton does not compile `return` inside a loop"
    if reason:
        _refuse(fn, offset + getattr(node, "lineno", 1), reason)
    if isinstance(node, ast.If) and _names(node.test) <= constants:
        _check_node(fn, node.test, offset, constants, in_loop=in_loop)
        return
    for child in ast.iter_child_nodes(node):
        inside = in_loop or isinstance(node, ast.For | ast.While)
        _check_node(fn, child, offset, constants, in_loop=inside)


def _refused_form(node: ast.AST) -> str | None:
    if isinstance(node, ast.Compare):
        return _refused_comparison(node)
    if isinstance(node, ast.Assign):
        return _refused_assignment(node)
    if isinstance(node, ast.For | ast.While) and node.orelse:
        return "Triton does not compile `else` of a loop"
    if isinstance(node, ast.For) and not isinstance(node.iter, ast.Call):
        return "Triton loops over range, tl.range and tl.static_range only"
    if isinstance(node, ast.ListComp) and any(
        isinstance(part.iter, ast.Call) for part in node.generators
    ):
        return "Triton does not compile list comprehensions over a range, only over a tuple"
    return None


def _refused_comparison(node: ast.Compare) -> str | None:
    if len(node.ops) > 1:
        return "Triton does not compile chained comparisons; write a < b and b < c"
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        return "Triton does not compile `in`"
    return None


def _refused_assignment(node: ast.Assign) -> str | None:
    if len(node.targets) > 1:
        return "Triton does not compile a = b = c; write two assignments"
    if any(map(_is_nested, node.targets)):
        return "Triton unpacks plain names only; write one assignment for each"
    return None


def _is_nested(target: ast.expr) -> bool:
    return isinstance(target, ast.Tuple) and any(
        isinstance(part, ast.Tuple | ast.Starred) for part in target.elts
    )


def _names(test: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}


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
        if _is_plain_data(value):
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
    return isinstance(value, bool | int | float | str | list | dict | tuple) and not isinstance(
        value, constexpr
    )
