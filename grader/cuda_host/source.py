"""Reads CUDA C++ as text: comments, launches, and what a stub left to be done. Compiles nothing."""

from __future__ import annotations

import re

# the stub of a region: no compiler goes past it, and this text says that it is no mistake
TODO = re.compile(r'^[ \t]*#[ \t]*error[ \t]+"(TODO: .*)"', re.MULTILINE)

_COMMENT = r"//[^\n]*|/\*.*?\*/"
_LITERAL = (
    r'R"(?P<raw>[^()\s\\]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\''
)
_COMMENT_OR_LITERAL = re.compile(f"(?P<comment>{_COMMENT})|{_LITERAL}", re.DOTALL)
_NAME = re.compile(r"(?:::\s*)?\w+(?:\s*::\s*\w+)*\s*\Z")
_KERNEL = re.compile(r"\b__global__\b[^;{]*\{")
_NO_NEWLINE = re.compile(r"[^\n]")


def comments(text: str) -> list[tuple[int, int]]:
    """Where the comments begin and end."""
    found = _COMMENT_OR_LITERAL.finditer(text)
    return [match.span() for match in found if match["comment"] is not None]


def without_comments(text: str) -> str:
    """The same text with comments blanked; every character keeps its place."""
    return _COMMENT_OR_LITERAL.sub(
        lambda match: _blank(match[0]) if match["comment"] is not None else match[0], text
    )


def without_literals(text: str) -> str:
    """The same text with comments and literals blanked; every character keeps its place."""
    return _COMMENT_OR_LITERAL.sub(lambda match: _blank(match[0]), text)


def todo(text: str) -> str:
    """What a stub says is still to be written, or ""."""
    found = TODO.search(without_comments(text))
    return found[1] if found else ""


def has_kernel(text: str) -> bool:
    """Whether a function for the GPU is defined and launched."""
    code = without_literals(text)
    return _KERNEL.search(code) is not None and ("<<<" in code or "cudaLaunchKernel" in code)


def for_host(text: str) -> str:
    """The text with each ``kernel<<<grid, block>>>(...)`` as a call that a host compiler can read.

    Lines stay where they are. What is no launch in full is left for the compiler to refuse.
    """
    code, parts, position = without_literals(text), [], 0
    while (opened := code.find("<<<", position)) >= 0:
        name = _kernel(code, position, opened)
        closed = _end_of_configuration(code, opened + 3)
        if name is None or closed is None:
            break
        kernel = text[name[0] : name[1]].strip()
        label = re.sub(r"\s+", "", kernel)
        parts += [
            text[position : name[0]],
            f"::cuda_host::configured({text[opened + 3 : closed]})",
            f'.with("{label}", [&](auto... cuda_host_a) {{ {kernel}(cuda_host_a...); }})',
        ]
        # a name may run over several lines
        parts.append("\n" * text.count("\n", name[0], opened))
        position = closed + 3
    return "".join(parts) + text[position:]


def _kernel(code: str, start: int, end: int) -> tuple[int, int] | None:
    """Where the kernel's name before a launch begins and ends, template arguments and all."""
    at = len(code[start:end].rstrip()) + start
    if at > start and code[at - 1] == ">":
        depth = 0
        for at in range(at - 1, start - 1, -1):  # noqa: B020  back from the bracket, to what it opens
            depth += {">": 1, "<": -1}.get(code[at], 0)
            if not depth:
                break
    found = _NAME.search(code, start, at)
    return (found.start(), end) if found else None


def _end_of_configuration(code: str, start: int) -> int | None:
    """Where the ``>>>`` stands that ends a launch's configuration."""
    depth = 0
    for at in range(start, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if not depth and code.startswith(">>>", at):
            return at
    return None


def _blank(text: str) -> str:
    return _NO_NEWLINE.sub(" ", text)
