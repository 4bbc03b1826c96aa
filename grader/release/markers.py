"""What marks the parts of a solution that students must write, in any language; and what is amiss."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

# how alike letters must be to count as a misspelling: "BEGN SOLUTON" is 0.92
_ALIKE = 0.8
_LOOSE = re.compile(r"SOLUTION|(?i:\b(begin|end|start|stop)\W*(of\W|the\W|your\W)*solution\b)")
# shorter statements, such as "return y", may occur in a hint by chance
MIN_LEAK_CHARS = 16


class StubError(ValueError):
    """A solution that cannot be turned into a stub; says file, line and what to do."""

    def __init__(self, path: str | Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")


def resembles_marker(comment: str) -> bool:
    """Whether a comment that is no marker could have been meant as one."""
    letters = re.sub(r"[^A-Z]", "", comment.upper())
    return _LOOSE.search(comment) is not None or any(
        difflib.SequenceMatcher(None, letters, marker).ratio() >= _ALIKE
        for marker in ("BEGINSOLUTION", "ENDSOLUTION")
    )


def squashed(text: str) -> str:
    """The text without white space, to look for one in another."""
    return re.sub(r"\s+", "", text)
