"""Takes what is to be graded: regular files only, copied to a place of the grader's own.

Links are never followed, folders never entered; what is not taken is listed in the scorecard.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.scorecard import Submission

SUFFIXES = frozenset({".py", ".cu", ".cuh", ".h"})
CUDA_SUFFIXES = (".cu",)  # of the file that a Python file of the same name compiles
MAX_FILE_BYTES = 1024 * 1024
MAX_FILES = 100


class SubmissionError(ValueError):
    """There is nothing that could be graded: a usage error, not a grade."""


@dataclass(frozen=True)
class Taken:
    """A submission, copied.

    Attributes:
        folder: Where the copies are, one ``<problem>.py`` for each problem handed in.
        card: For the scorecard.
        originals: Of each copy, by its name, the file that it is of.
    """

    folder: Path
    card: Submission
    originals: Mapping[str, Path] = field(default_factory=dict)

    def file(self, problem: str) -> Path:
        """Where the problem's file is, or would be."""
        return self.folder / f"{problem}.py"


def take(path: Path, into: Path, problems: Iterable[str]) -> Taken:
    """Copy a submission into the empty folder ``into``.

    Args:
        path: A folder with ``<problem>.py`` files, a folder with ``<problem>/solution.py`` (the
            reference), or one file, which is then the only problem's.
        into: An empty folder of the grader's own.
        problems: Names of the problems to grade.

    Raises:
        SubmissionError: If there is no such folder or file, or it cannot be read.
    """
    problems = list(problems)
    sources, ignored = _sources(path, problems)
    if not any(f"{name}.py" in sources for name in problems):
        raise SubmissionError(
            f"{path} holds none of the files asked for: {', '.join(f'{n}.py' for n in problems)}"
        )
    digest = hashlib.sha256()
    files: list[str] = []
    for name, source in sorted(sources.items()):
        content = read_regular(source)
        if content is None or len(files) == MAX_FILES:
            ignored.append(_shown(source, path))
            continue
        (into / name).write_bytes(content)
        digest.update(os.fsencode(name) + f"\0{len(content)}\0".encode() + content)
        files.append(readable(name))
    return Taken(
        into,
        Submission(
            path=_relative(path),
            sha256=digest.hexdigest(),
            files=tuple(files),
            ignored=tuple(sorted(map(readable, ignored))),
        ),
        {name: source.resolve() for name, source in sources.items()},
    )


def _sources(path: Path, problems: list[str]) -> tuple[dict[str, Path], list[str]]:
    """What to copy, by its name there; and the names of what is left."""
    if path.is_file():
        if len(problems) != 1:
            raise SubmissionError(
                f"{path} is one file: say which problem it solves with --problem NAME"
            )
        if path.suffix != ".py" or read_regular(path) is None:
            raise SubmissionError(
                f"{path} is no Python file of at most {MAX_FILE_BYTES >> 20} MiB that can be read"
                " (links are not followed)"
            )
        beside = {f"{problems[0]}{suffix}": path.with_suffix(suffix) for suffix in CUDA_SUFFIXES}
        beside = {name: source for name, source in beside.items() if source.is_file()}
        return {f"{problems[0]}.py": path, **beside}, []
    if not path.is_dir():
        raise SubmissionError(
            f"there is no folder {path}: pass the folder with the <problem>.py files"
        )
    solutions = {
        f"{name}{suffix}": path / name / f"solution{suffix}"
        for name in problems
        for suffix in (".py", *CUDA_SUFFIXES)
    }
    is_reference = any((path / name / "problem.py").is_file() for name in problems)
    if is_reference:
        return {name: source for name, source in solutions.items() if source.is_file()}, []
    sources, ignored = {}, []
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise SubmissionError(f"the folder {path} cannot be read: {error.strerror}") from error
    for entry in entries:
        if entry.suffix in SUFFIXES and not entry.name.startswith("."):
            sources[entry.name] = entry
        elif entry.name != "__pycache__":
            ignored.append(entry.name)
    return sources, ignored


def read_regular(path: Path) -> bytes | None:
    """The content of a regular file that is not a link; None for anything else, or if too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        return os.read(fd, MAX_FILE_BYTES)
    finally:
        os.close(fd)


def _shown(source: Path, root: Path) -> str:
    return str(source.relative_to(root)) if source.is_relative_to(root) else source.name


def _relative(path: Path) -> str:
    """As typed if relative, else the last part: a card names no place on a machine."""
    return readable(path.name if path.is_absolute() else str(path))


def readable(name: str) -> str:
    """A file's name as text: bytes that are not UTF-8, as old archives leave them, are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
