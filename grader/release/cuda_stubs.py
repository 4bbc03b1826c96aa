"""Makes a student's stub from a staff solution in CUDA C++. Compiles nothing.

    // BEGIN SOLUTION
    // STUB: what to do here            optional, becomes the stub's message
    ...                                 everything up to END is replaced
    // END SOLUTION

The region becomes ``#error "TODO: ..."``: no compiler goes past it, and ``grader.cuda_host.source``
knows it before one is asked. As for Python, a marker that might be misread is an error. Not covered:
a hint that gives the solution away in other words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.cuda_host import source as cpp
from grader.release.markers import MIN_LEAK_CHARS, StubError, resembles_marker, squashed

BEGIN, END = "// BEGIN SOLUTION", "// END SOLUTION"
MESSAGE = "// STUB:"
# a kernel without a region is given to students whole; this comment in it says that it is meant
GIVEN = "// GIVEN"

_FUNCTION = re.compile(r"(\w+)\s*\([^(){}]*\)[^(){};]*\Z")
_KERNEL = re.compile(r"\b__global__\b")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class _Region:
    """Lines of the two markers, counted from 1, and where their comments begin in the text."""

    begin: int
    end: int
    begin_at: int
    end_at: int
    indent: str


def strip(text: str, path: str | Path) -> str:
    """The stub of one solution.

    Args:
        text: Of a solution.cu.
        path: For messages.

    Raises:
        StubError: If a marker is misplaced, misspelt or missing, or part of the solution would
            survive.
    """
    code = cpp.without_literals(text)
    regions = _regions(text, path)
    for region in regions:
        _check_region(region, code, path)
    _check_kernels(text, code, regions, path)
    lines = text.rstrip("\n").split("\n")
    kept: list[str] = []
    position = 0
    for region in regions:
        kept += lines[position : region.begin - 1]
        kept += [
            f"{region.indent}// TODO: your code here, instead of the next line",
            f'#error "TODO: {_message(lines, region, code, path)}"',
        ]
        position = region.end
    stub = "\n".join([*kept, *lines[position:]]) + "\n"
    _check_leaks(text, code, stub, regions, path)
    return stub


def _regions(text: str, path: str | Path) -> list[_Region]:
    """Pairs of markers."""
    regions: list[_Region] = []
    opened: tuple[int, int, str] | None = None
    for at, line, indent, marker in _markers(text, path):
        if marker == BEGIN:
            if opened:
                raise StubError(path, line, f"BEGIN inside the region of line {opened[1]}")
            opened = at, line, indent
            continue
        if not opened:
            raise StubError(path, line, "END without BEGIN")
        if indent != opened[2]:
            raise StubError(path, line, f"indented unlike its BEGIN in line {opened[1]}")
        regions.append(_Region(opened[1], line, opened[0], at, indent))
        opened = None
    if opened:
        raise StubError(path, opened[1], "BEGIN without END")
    if not regions:
        raise StubError(path, 1, f"no {BEGIN!r}: the whole solution would be handed out")
    return regions


def _markers(text: str, path: str | Path) -> list[tuple[int, int, str, str]]:
    """Place, line, indentation and text of each marker, after ruling out what only resembles one."""
    found = []
    for begin, end in cpp.comments(text):
        comment, line = text[begin:end].rstrip(), _line(text, begin)
        if comment not in {BEGIN, END}:
            if any(resembles_marker(part) for part in comment.splitlines()):
                remedy = f"write exactly {BEGIN!r} or {END!r}, or reword the comment"
                raise StubError(path, line, f"{comment!r} only resembles a marker: {remedy}")
            continue
        indent = text[text.rfind("\n", 0, begin) + 1 : begin]
        if indent.strip():
            raise StubError(path, line, "a marker must stand alone on its line")
        found.append((begin, line, indent, comment))
    spaced = cpp.without_comments(text)
    for number, row in enumerate(spaced.split("\n"), 1):
        if "BEGIN SOLUTION" in row or "END SOLUTION" in row:
            raise StubError(path, number, "marker outside a comment: it would not be seen")
    return found


def _check_region(region: _Region, code: str, path: str | Path) -> None:
    """A region must hold whole statements, inside a function."""
    inside = code[region.begin_at : region.end_at]
    if not inside.strip():
        raise StubError(path, region.begin, "the region holds no statement")
    depth = 0
    for at, letter in enumerate(inside):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if depth < 0:
            line = region.begin + inside.count("\n", 0, at)
            raise StubError(
                path, line, f"closes what the region of line {region.begin} did not open"
            )
    if depth:
        raise StubError(path, region.begin, "the region opens what it does not close")
    if inside.rstrip()[-1] not in ";}":
        raise StubError(path, region.end, "the region ends within a statement")
    before = code[: region.begin_at].rstrip()
    if before[-1:] not in {";", "{", "}"}:
        raise StubError(path, region.begin, "the region begins within a statement")
    if _function(code, region) is None:
        raise StubError(path, region.begin, "a region must lie in the body of a function")


def _check_kernels(text: str, code: str, regions: list[_Region], path: str | Path) -> None:
    """A kernel nobody marked is more likely forgotten than given away."""
    for found in _KERNEL.finditer(code):
        opened = code.find("{", found.end())
        semicolon = code.find(";", found.end())
        if opened < 0 or 0 <= semicolon < opened:
            continue  # a declaration
        closed = _closing(code, opened)
        if any(opened < region.begin_at < closed for region in regions):
            continue
        comments = (text[b:e].rstrip() for b, e in cpp.comments(text) if opened < b < closed)
        if GIVEN not in comments:
            what = f"a kernel has no region; if it is given, say {GIVEN!r} in it"
            raise StubError(path, _line(text, found.start()), what)


def _message(lines: list[str], region: _Region, code: str, path: str | Path) -> str:
    """What the stub says is to be done."""
    said = [line.strip() for line in lines[region.begin : region.end - 1]]
    messages = [line.removeprefix(MESSAGE).strip() for line in said if line.startswith(MESSAGE)]
    message = " ".join(messages) or f"implement {_function(code, region)}"
    if '"' in message or "\\" in message:
        raise StubError(path, region.begin, "the message may hold neither quotes nor backslashes")
    return message


def _check_leaks(text: str, code: str, stub: str, regions: list[_Region], path: str | Path) -> None:
    """No statement of a region may occur in the stub, be it in a comment or a text."""
    shown = code
    for region in regions:
        blanked = " " * (region.end_at - region.begin_at)
        shown = shown[: region.begin_at] + blanked + shown[region.end_at :]
    shown, everything = squashed(shown), squashed(stub)
    for region in regions:
        inside = code[region.begin_at : region.end_at]
        for part in re.finditer(r"[^;{}]+", inside):
            statement = squashed(part[0])
            is_long = len(statement) >= MIN_LEAK_CHARS
            if is_long and statement in everything and statement not in shown:
                line = region.begin + inside.count("\n", 0, part.end())
                what = f"survives in the stub, perhaps in a comment: {statement!r}"
                raise StubError(path, line, what)


def _function(code: str, region: _Region) -> str | None:
    """The name of the function around a region: of the outermost that has a list of arguments."""
    opened: list[int] = []
    for at in range(region.begin_at):
        if code[at] == "{":
            opened.append(at)
        elif code[at] == "}" and opened:
            opened.pop()
    for at in opened:
        start = max(code.rfind(mark, 0, at) for mark in ";}{")
        if found := _FUNCTION.search(code[start + 1 : at].rstrip()):
            return found[1]
    return None


def _closing(code: str, opened: int) -> int:
    depth = 0
    for at in range(opened, len(code)):
        depth += (code[at] == "{") - (code[at] == "}")
        if not depth:
            return at
    return len(code)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
