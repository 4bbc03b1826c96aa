"""``and`` and ``or`` in kernels, which Triton applies to blocks elementwise.

Python decides them by a truth value that a block does not have. A kernel that uses them is compiled
again with calls in their place; any other kernel's bytecode runs as it is.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from grader.simulator.creation import to_bool
from grader.simulator.values import Value, bitwise, plain

_AND, _OR = "__kernelgrade_and__", "__kernelgrade_or__"


def _logical(function: Callable[[Any, Any], Any], *, stops_at: bool) -> Callable[..., Any]:
    def apply(first: Any, *rest: Callable[[], Any]) -> Any:
        so_far = first
        for operand in rest:
            if not isinstance(so_far, Value) and bool(plain(so_far)) is stops_at:
                return so_far
            # both sides are computed, as on the GPU
            other = operand()
            if isinstance(so_far, Value) or isinstance(other, Value):
                so_far = bitwise(function, to_bool(so_far), to_bool(other))
            else:
                so_far = other
        return so_far

    return apply


OPERATORS = {
    _AND: _logical(np.bitwise_and, stops_at=False),
    _OR: _logical(np.bitwise_or, stops_at=True),
}


class _Calls(ast.NodeTransformer):
    """Writes ``a and b`` as a call of the operator on a and a function that gives b."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        no_arguments = ast.arguments(
            posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        first, *rest = node.values
        call = ast.Call(
            func=ast.Name(id=_AND if isinstance(node.op, ast.And) else _OR, ctx=ast.Load()),
            args=[first, *(ast.Lambda(args=no_arguments, body=operand) for operand in rest)],
            keywords=[],
        )
        return ast.fix_missing_locations(ast.copy_location(call, node))


def with_eager_operators(fn: Any) -> types.CodeType:
    """The bytecode of a kernel, on the same lines, with ``and`` and ``or`` as calls."""
    code: types.CodeType = fn.__code__
    try:
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return code
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or code.co_freevars:
        return code
    if not any(isinstance(node, ast.BoolOp) for part in function.body for node in ast.walk(part)):
        return code
    function.decorator_list = []
    function.body = [_Calls().visit(statement) for statement in function.body]
    ast.increment_lineno(tree, first - 1)
    compiled = compile(tree, code.co_filename, "exec", dont_inherit=True)
    made = [c for c in compiled.co_consts if isinstance(c, types.CodeType)]
    return next((c for c in made if c.co_name == code.co_name), code)
