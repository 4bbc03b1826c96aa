"""The course's own settings: the section ``[tool.grader]`` of pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from grader.compiler.occupancy import LIMITS

DEFAULT_ARCH: Final = 90  # H100 and H200


def course_arch(pyproject: Path) -> int:
    """The GPU that kernels are compiled for, ``arch = "sm_90"``: compute capability times ten.

    Raises:
        ValueError: If it is no GPU that the compiler's limits are known of.
    """
    try:
        text = pyproject.read_text(encoding="utf-8")
    except OSError:
        return DEFAULT_ARCH
    arch = tomllib.loads(text).get("tool", {}).get("grader", {}).get("arch", f"sm_{DEFAULT_ARCH}")
    return parsed_arch(arch)


def parsed_arch(arch: object) -> int:
    """``sm_90`` as 90.

    Raises:
        ValueError: If it is no GPU that the compiler's limits are known of.
    """
    names = {f"sm_{known}": known for known in LIMITS}
    if not isinstance(arch, str) or arch not in names:
        raise ValueError(f"arch: got {arch!r}, want one of {', '.join(map(repr, names))}")
    return names[arch]
