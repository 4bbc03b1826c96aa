"""Where the compiler keeps what it made of a submission: a folder that only this code writes to.

Named by the content of the files, so that nothing made from one submission is ever used for another.
Safe to delete at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from grader import __version__

KEPT_FOLDERS: Final = 50  # some megabytes each


def root() -> Path:
    """The folder of all caches, by the XDG rule."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "kernelgrade" / "compiled"


def folder(file: Path) -> Path | None:
    """The folder for one submission file and the files beside it that it may import.

    None where it cannot be made; then the compiler starts from nothing each time.
    """
    digest = hashlib.sha256(__version__.encode())
    for source in [file, *sorted(p for p in file.parent.glob("*.py") if _is_helper(p, file))]:
        content = source.read_bytes()
        digest.update(f"{source.name}\0{len(content)}\0".encode() + content)
    try:
        mine = root() / digest.hexdigest()[:32]
        mine.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.utime(mine)
        _forget_oldest(mine.parent)
    except (OSError, RuntimeError):  # read-only, full, or a user without a home
        return None
    return mine


def _is_helper(path: Path, file: Path) -> bool:
    """Whether the file names this one; a file of another problem is mostly not named."""
    return path != file and path.stem in file.read_text(encoding="utf-8", errors="replace")


def _forget_oldest(every: Path) -> None:
    by_age = sorted(every.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[KEPT_FOLDERS:]:
        shutil.rmtree(old, ignore_errors=True)
