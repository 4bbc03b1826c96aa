"""The course's own settings: the section ``[tool.grader]`` of pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from grader.compiler.occupancy import LIMITS

DEFAULT_ARCH: Final = 90  # H100 and H200
_SECTION: Final = ("tool", "grader")


def course_arch(pyproject: Path) -> int:
    """The GPU that kernels are compiled for, ``arch = "sm_90"``: compute capability times ten.

    Raises:
        ValueError: If the file cannot be understood, or the GPU is none that the compiler's limits
            are known of. Says which file, and what to write.
    """
    try:
        settings = _settings(pyproject)
        return parsed_arch(settings["arch"]) if "arch" in settings else DEFAULT_ARCH
    except ValueError as error:
        raise ValueError(f"{pyproject.name}: {error}") from None


def _settings(pyproject: Path) -> Mapping[str, Any]:
    """The section; empty where there is none.

    Raises:
        ValueError: If the file is no TOML, or the section is none.
    """
    try:
        section = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("it is no TOML: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is no TOML: {error}") from None
    for depth, name in enumerate(_SECTION, 1):
        section = section.get(name, {})
        if not isinstance(section, dict):
            shown = ".".join(_SECTION[:depth])
            raise ValueError(  # noqa: TRY004  a mistake in the file, as the others are
                f"{shown} = {section!r} is no section: write [{shown}] on its own line"
            )
    return section


def parsed_arch(arch: object) -> int:
    """``sm_90`` as 90.

    Raises:
        ValueError: If it is no GPU that the compiler's limits are known of.
    """
    names = {f"sm_{known}": known for known in LIMITS}
    if not isinstance(arch, str) or arch not in names:
        raise ValueError(f"arch: got {arch!r}, want one of {', '.join(map(repr, names))}")
    return names[arch]
