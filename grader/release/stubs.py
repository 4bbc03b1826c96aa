"""Makes a student's stub from a staff solution. Runs neither, and needs neither torch nor Triton.

    # BEGIN SOLUTION
    # STUB: what to do here             optional, becomes the stub's message
    ...                                 everything up to END is replaced
    # END SOLUTION

The region becomes one statement that fails when it is reached: ``tl.static_assert`` in a
``@triton.jit`` function, where ``raise`` does not compile and ``pass`` silently writes nothing, and
``raise NotImplementedError`` elsewhere. Signatures, docstrings and comments outside stay.
A solution.cu becomes a stub of its own (``cuda_stubs``).

A marker that might be misread is an error, never a guess: the price of a guess is a published
solution. Not covered: a hint that gives the solution away in other words.
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.release import cuda_stubs
from grader.release.markers import MIN_LEAK_CHARS, StubError, resembles_marker, squashed

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
MESSAGE = "# STUB:"
# a kernel without a region is given to students whole; this comment in it says that it is meant
GIVEN = "# GIVEN"

_LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Region:
    """Lines of the two markers, counted from 1, and their indentation in characters."""

    begin: int
    end: int
    indent: int

    def holds(self, node: ast.stmt) -> bool:
        return self.begin < _first_line(node) and _last_line(node) < self.end


def strip(source: str, path: str | Path) -> str:
    """The stub of one solution.

    Args:
        source: Text of a solution.py.
        path: For messages.

    Raises:
        StubError: If a marker is misplaced, misspelt or missing, or part of the solution would
            survive.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise StubError(path, error.lineno or 1, f"does not parse: {error.msg}") from error
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    regions = _regions(tokens, path)
    for region in regions:
        _check_region(region, tree, tokens, path)
    _check_kernels(tree, regions, tokens, path)
    stub = _replace(source, tree, regions, path)
    _check_leaks(tree, stub, regions, path)
    return stub


def write_stubs(reference_dir: Path, assignment_dir: Path) -> list[Path]:
    """Bring every stub up to date; returns the changed paths.

    Overwrites what a student wrote into one, deletes nothing, and writes nothing at all if one
    solution is in error.
    """
    stale = _stale(reference_dir, assignment_dir)
    assignment_dir.mkdir(parents=True, exist_ok=True)
    for path, text in stale.items():
        path.write_bytes(text.encode())
    return list(stale)


def stale_stubs(reference_dir: Path, assignment_dir: Path) -> list[Path]:
    """Stubs that are missing or differ from what their solution gives. Writes nothing."""
    return list(_stale(reference_dir, assignment_dir))


def _stale(reference_dir: Path, assignment_dir: Path) -> dict[Path, str]:
    """Path and wanted text of every stub that is not current."""
    wanted = {
        assignment_dir / f"{solution.parent.name}{solution.suffix}": stub_of(
            solution.read_text(encoding="utf-8"), solution
        )
        for pattern, stub_of in (("*/solution.py", strip), ("*/solution.cu", cuda_stubs.strip))
        for solution in sorted(reference_dir.glob(pattern))
    }
    return {
        path: text
        for path, text in wanted.items()
        if not path.is_file() or path.read_bytes() != text.encode()
    }


def _regions(tokens: list[tokenize.TokenInfo], path: str | Path) -> list[_Region]:
    """Pairs of markers."""
    regions: list[_Region] = []
    opened: tokenize.TokenInfo | None = None
    for marker in _markers(tokens, path):
        line, indent = marker.start
        if marker.string.rstrip() == BEGIN:
            if opened:
                raise StubError(path, line, f"BEGIN inside the region of line {opened.start[0]}")
            opened = marker
            continue
        if not opened:
            raise StubError(path, line, "END without BEGIN")
        if indent != opened.start[1]:
            raise StubError(path, line, f"indented unlike its BEGIN in line {opened.start[0]}")
        regions.append(_Region(opened.start[0], line, indent))
        opened = None
    if opened:
        raise StubError(path, opened.start[0], "BEGIN without END")
    if not regions:
        raise StubError(path, 1, f"no {BEGIN!r}: the whole solution would be handed out")
    return regions


def _markers(tokens: list[tokenize.TokenInfo], path: str | Path) -> Iterator[tokenize.TokenInfo]:
    """The comments that are markers, after ruling out all that only resemble one."""
    depth = 0
    for token in tokens:
        line, indent = token.start
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        elif token.type != tokenize.COMMENT and (BEGIN in token.string or END in token.string):
            raise StubError(path, line, "marker inside a string: it would not be seen")
        elif token.type == tokenize.COMMENT:
            text = token.string.rstrip()
            if text not in {BEGIN, END}:
                if resembles_marker(text):
                    remedy = f"write exactly {BEGIN!r} or {END!r}, or reword the comment"
                    raise StubError(path, line, f"{text!r} only resembles a marker: {remedy}")
                continue
            if token.line[:indent].strip():
                raise StubError(path, line, "a marker must stand alone on its line")
            if depth:
                raise StubError(path, line, "a marker may not stand inside brackets")
            yield token


def _check_region(
    region: _Region, tree: ast.Module, tokens: list[tokenize.TokenInfo], path: str | Path
) -> None:
    """A region must hold whole statements of one block, inside a function."""
    inside = [node for node in _statements(tree) if region.holds(node)]
    if not inside:
        raise StubError(path, region.begin, "the region holds no statement")
    for node in _statements(tree):
        first, last = _first_line(node), _last_line(node)
        # a shallower statement may end with its region: the region is part of its body
        runs_in = first < region.begin < last < region.end and node.col_offset >= region.indent
        runs_out = region.begin < first < region.end < last
        if runs_in or runs_out:
            raise StubError(path, first, f"statement crosses the region of line {region.begin}")
    covered = {line for node in inside for line in range(_first_line(node), _last_line(node) + 1)}
    for token in tokens:
        line = token.start[0]
        if region.begin < line < region.end and token.type not in _LAYOUT and line not in covered:
            raise StubError(
                path, line, f"belongs to a statement outside the region of line {region.begin}"
            )
    if min(inside, key=_first_line).col_offset != region.indent or any(
        node.col_offset < region.indent for node in inside
    ):
        raise StubError(path, region.begin, "markers must be indented like the statements between")
    if _owner(tree, region) is None:
        raise StubError(path, region.begin, "a region must lie in the body of a function")


def _check_kernels(
    tree: ast.Module, regions: list[_Region], tokens: list[tokenize.TokenInfo], path: str | Path
) -> None:
    """A kernel nobody marked is more likely forgotten than given away."""
    marked = {region.begin for region in regions}
    marked |= {token.start[0] for token in tokens if token.string.rstrip() == GIVEN}
    for node in ast.walk(tree):
        if not isinstance(node, _Function) or not _is_kernel(node):
            continue
        if marked.isdisjoint(range(_first_line(node), _last_line(node) + 1)):
            what = f"kernel {node.name} has no region; if it is given, say {GIVEN!r} in it"
            raise StubError(path, node.lineno, what)


def _replace(source: str, tree: ast.Module, regions: list[_Region], path: str | Path) -> str:
    # not splitlines(): the parser counts lines by "\n" alone
    lines = source.rstrip("\n").split("\n")
    kept: list[str] = []
    position = 0
    for region in regions:
        owner = _owner(tree, region)
        assert owner is not None
        body = lines[region.begin : region.end - 1]
        messages = [
            line.strip().removeprefix(MESSAGE).strip()
            for line in body
            if line.strip().startswith(MESSAGE)
        ]
        what = " ".join(messages) or f"implement {_qualified(tree, owner)}"
        text = json.dumps(f"TODO: {what}", ensure_ascii=False)
        failure = (
            f"tl.static_assert(False, {text})"
            if _is_kernel(owner)
            else f"raise NotImplementedError({text})"
        )
        pad = " " * region.indent
        kept += lines[position : region.begin - 1]
        kept += [f"{pad}# TODO: your code here, instead of the next line", pad + failure]
        position = region.end
    stub = "\n".join([*kept, *lines[position:]]) + "\n"
    try:
        compile(stub, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise StubError(
            path, error.lineno or 1, f"the stub does not compile: {error.msg}"
        ) from error
    return stub


def _check_leaks(tree: ast.Module, stub: str, regions: list[_Region], path: str | Path) -> None:
    """No statement of a region may occur in the stub, be it in a comment or a docstring."""
    hidden = [node for node in _statements(tree) if any(r.holds(node) for r in regions)]
    shown = {
        squashed(ast.unparse(node))
        for node in _statements(tree)
        if not any(r.holds(node) for r in regions)
    }
    text = squashed(stub)
    for node in hidden:
        first = squashed(ast.unparse(node).splitlines()[0])
        if len(first) >= MIN_LEAK_CHARS and first in text and first not in shown:
            raise StubError(
                path, node.lineno, f"survives in the stub, perhaps in a comment: {first!r}"
            )


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _owner(tree: ast.Module, region: _Region) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function around a region."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, _Function) and node.lineno < region.begin <= _last_line(node)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def _qualified(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Its name, after its class's for a method."""
    names = [
        node.name for node in tree.body if isinstance(node, ast.ClassDef) and function in node.body
    ]
    return ".".join([*names, function.name])


def _is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator is triton.jit, called or not."""
    names = (ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list)
    return any(name in {"triton.jit", "jit"} for name in names)
