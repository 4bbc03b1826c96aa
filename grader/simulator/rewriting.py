"""What Python's own bytecode cannot do for a kernel: ``and``, ``or``, ``not``, and variables' types.

Triton applies ``and`` and ``or`` to blocks elementwise, where Python asks for a truth value; and it
refuses a variable that changes its type in a loop or a branch. A kernel that has any of these is compiled again
with calls in their place, on the same lines; any other kernel's bytecode runs as it is.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from grader.simulator import branches, carried
from grader.simulator.comparisons import bitwise
from grader.simulator.constants import plain
from grader.simulator.values import Value

_AND, _OR = "__kernelgrade_and__", "__kernelgrade_or__"
_NOT, _ASSERT = "__kernelgrade_not__", "__kernelgrade_assert__"
_BRANCH, _IF = "__kernelgrade_branch__", "__kernelgrade_if"
_CONDITION, _WHILE = "__kernelgrade_condition__", "__kernelgrade_while__"
_HAD = "__kernelgrade_had"
_CARRIED = "__kernelgrade_carried__"
_TYPES, _CHECK, _BEFORE = "__kernelgrade_types__", "__kernelgrade_check__", "__kernelgrade_before"


def _logical(function: Callable[[Any, Any], Any], *, stops_at: bool) -> Callable[..., Any]:
    def apply(first: Any, *rest: Callable[[], Any]) -> Any:
        so_far = first
        for operand in rest:
            if not isinstance(so_far, Value) and bool(plain(so_far)) is stops_at:
                return so_far
            # both sides are computed, as on the GPU
            other = operand()
            if not isinstance(so_far, Value):
                so_far = other
            elif isinstance(other, Value):
                so_far = bitwise(function, branches.truth(so_far), branches.truth(other))
            elif bool(plain(other)) is stops_at:
                return other
        return so_far

    return apply


OPERATORS = {
    _CARRIED: carried.value,
    _TYPES: carried.types,
    _CHECK: carried.check_types,
    _BRANCH: branches.Branch,
    _CONDITION: branches.condition,
    _WHILE: branches.loop_condition,
    _NOT: branches.logical_not,
    _ASSERT: branches.check_assertion,
    _AND: _logical(np.bitwise_and, stops_at=False),
    _OR: _logical(np.bitwise_or, stops_at=True),
}


def _call(function: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=function, ctx=ast.Load()), args=list(arguments), keywords=[])


def _around(function: str, test: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(_call(function, test), test))


def _is_unrolled(loop: ast.For | ast.While) -> bool:
    return isinstance(loop, ast.For) and "static_range" in ast.unparse(loop.iter)


def _stored(body: list[ast.stmt]) -> set[str]:
    """Names that statements assign, but for tl.constexpr ones."""
    nodes = [n for statement in body for n in ast.walk(statement)]
    constants = {id(n.target) for n in nodes if isinstance(n, ast.AnnAssign)}
    return {
        n.id
        for n in nodes
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in constants
    }


def _counters(loop: ast.For | ast.While) -> ast.expr:
    """The name that a loop counts with, if any, as code."""
    names: list[ast.expr] = []
    if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name):
        names.append(ast.Constant(loop.target.id))
    return ast.Tuple(elts=names, ctx=ast.Load())


def _stored_in_branches(loop: ast.For | ast.While) -> set[str]:
    found = [n for statement in loop.body for n in ast.walk(statement) if isinstance(n, ast.If)]
    return {name for branch in found for name in _stored([*branch.body, *branch.orelse])}


def _forget(name: str, had: str) -> str:
    return f"if {name!r} in locals() and {name!r} not in {had}:\n    del {name}"


def _carry(name: str) -> str:
    return f"if {name!r} in locals():\n    {name} = {_CARRIED}({name})"


def _at(place: ast.stmt, text: str) -> list[ast.stmt]:
    """Statements from text, all at the line of another one."""
    statements = ast.parse(text).body
    for statement in statements:
        for node in ast.walk(statement):
            if hasattr(node, "lineno"):
                ast.copy_location(node, place)
                # Python moves a call to the last line of what it is called on
                node.end_lineno, node.end_col_offset = node.lineno, node.col_offset  # type: ignore[attr-defined]
    return statements


def _returns(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return)


def _after_branch(state: str, assigned: set[str], gone: set[str]) -> str:
    """At the end of a branch: check types, make numbers values, forget what it alone assigns."""
    lines = [f"if {state}.is_dynamic:", f"    {state}.check(locals())"]
    for name in sorted(assigned):
        keep = f"if {name!r} in locals():\n        {name} = {_CARRIED}({name})"
        if name in gone:
            keep = f"if {state}.leaves({name!r}, locals()):\n        del {name}\n    el{keep}"
        lines.append(f"    {keep}")
    return "\n".join(lines)


class _Calls(ast.NodeTransformer):
    """Puts calls in the place of operators and assertions, and around loops and branches."""

    def __init__(self, file: str, offset: int) -> None:
        self.file = file
        self.offset = offset  # from lines of the kernel's text to lines of the file
        self.n_loops = 0

    def visit_For(self, node: ast.For) -> Any:
        """Remember types before the loop, compare them at the end of a turn."""
        return self._loop(node)

    def visit_While(self, node: ast.While) -> Any:
        """Likewise."""
        node.test = _around(_WHILE, node.test)
        return self._loop(node)

    def _loop(self, node: ast.For | ast.While) -> Any:
        stored, branched = _stored(node.body), _stored_in_branches(node)
        counters = _counters(node)
        self.generic_visit(node)
        if _is_unrolled(node):
            return node
        self.n_loops += 1
        name = f"{_BEFORE}_{self.n_loops}"
        target = [ast.Name(id=name, ctx=ast.Store())]
        before = ast.Assign(
            targets=list(target),
            value=_call(_TYPES, _call("locals"), self._place(node), counters),
        )
        now = ast.Name(id=name, ctx=ast.Load())
        after = ast.Expr(value=_call(_CHECK, now, _call("locals"), self._place(node)))
        ast.copy_location(before, node)
        ast.copy_location(after, node.body[-1])
        node.body.append(after)
        # what a loop alone assigns is gone after it
        had = f"{_HAD}_{self.n_loops}"
        carried = [f"{had} = list(locals())", *map(_carry, sorted(stored))]
        gone = "\n".join(_forget(name, had) for name in sorted(stored))
        # nor does a turn see what a branch of the last one assigned
        in_branches = "\n".join(_forget(name, had) for name in sorted(branched))
        node.body[:0] = _at(node, in_branches)
        return [
            *_at(node, "\n".join(carried)),
            ast.fix_missing_locations(before),
            ast.fix_missing_locations(node),
            *_at(node, gone),
        ]

    def visit_If(self, node: ast.If) -> Any:
        """Remember types before a branch, compare them after it."""
        then, other = _stored(node.body), _stored(node.orelse)
        # a branch that returns says nothing about what comes after
        one_sided = set() if _returns(node.body) or _returns(node.orelse) else then ^ other
        self.generic_visit(node)
        if not then | other:
            node.test = _around(_CONDITION, node.test)
            return node
        self.n_loops += 1
        state = f"{_IF}_{self.n_loops}"
        names: list[ast.expr] = [ast.Constant(name) for name in sorted(then | other)]
        assigned = ast.Tuple(elts=names, ctx=ast.Load())
        begin = ast.Assign(
            targets=[ast.Name(id=state, ctx=ast.Store())],
            value=_call(_BRANCH, node.test, _call("locals"), assigned),
        )
        ast.copy_location(begin, node)
        node.test = ast.copy_location(ast.Name(id=state, ctx=ast.Load()), node.test)
        # at the line that ran last, so that a debugger does not stop again
        place = node.orelse[-1] if node.orelse else node
        node.orelse += _at(place, _after_branch(state, other, one_sided & other))
        node.body += _at(node.body[-1], _after_branch(state, then, one_sided & then))
        return [ast.fix_missing_locations(begin), ast.fix_missing_locations(node)]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """``x if c else y`` takes the conditions that `if` takes."""
        self.generic_visit(node)
        node.test = _around(_CONDITION, node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """``not`` of a block is elementwise."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.fix_missing_locations(ast.copy_location(_call(_NOT, node.operand), node))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """``assert`` is tl.device_assert."""
        self.generic_visit(node)
        call = ast.Expr(value=_call(_ASSERT, node.test, *([node.msg] if node.msg else [])))
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _place(self, loop: ast.For | ast.While) -> ast.expr:
        """File and line of a loop, as code."""
        parts: list[ast.expr] = [ast.Constant(self.file), ast.Constant(loop.lineno + self.offset)]
        return ast.Tuple(elts=parts, ctx=ast.Load())

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        no_arguments = ast.arguments(
            posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        first, *rest = node.values
        operator = _AND if isinstance(node.op, ast.And) else _OR
        later = (ast.Lambda(args=no_arguments, body=operand) for operand in rest)
        call = _call(operator, first, *later)
        return ast.fix_missing_locations(ast.copy_location(call, node))


_REWRITTEN = (ast.Assert, ast.BoolOp, ast.For, ast.If, ast.IfExp, ast.Not, ast.While)


def rewritten(fn: Any) -> types.CodeType:
    """The bytecode of a kernel, on the same lines, with calls for what Python cannot do."""
    code: types.CodeType = fn.__code__
    try:
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return code
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or code.co_freevars:
        return code
    nodes = (node for part in function.body for node in ast.walk(part))
    if not any(isinstance(node, _REWRITTEN) for node in nodes):
        return code
    function.decorator_list = []
    _Calls(code.co_filename, first - 1).generic_visit(function)
    ast.increment_lineno(tree, first - 1)
    compiled = compile(tree, code.co_filename, "exec", dont_inherit=True)
    made = [c for c in compiled.co_consts if isinstance(c, types.CodeType)]
    return next((c for c in made if c.co_name == code.co_name), code)
