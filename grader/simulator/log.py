"""What a recorded call leaves behind: its launches with their traffic, and its findings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from grader.simulator.cache import Cache
from grader.simulator.counts import SECTOR_BYTES
from grader.simulator.specialisation import Specialisation

FindingKind = Literal[
    "out_of_bounds", "uninitialised_read", "race", "deadlock", "never_written", "note"
]


@dataclass(frozen=True)
class ArgumentTraffic:
    """Traffic of one tensor argument in one launch.

    Attributes:
        read: Elements loaded; a masked-off lane loads nothing.
        written: Elements stored; an atomic is counted apart, in ``atomics``.
        read_sectors: 32-byte sectors touched, per tile access of one program.
        dram_read_bytes: By the cache model; None where nobody asked for it.
    """

    read: int = 0
    written: int = 0
    atomics: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    read_sectors: int = 0
    written_sectors: int = 0
    dram_read_bytes: int | None = None
    dram_written_bytes: int | None = None

    @property
    def read_share(self) -> float | None:
        """Share of the sectors read that was asked for, in 0..1; None when nothing was read.

        1.0 for neighbouring elements, 4 / 32 for one float32 of each sector. What several lanes of
        a tile ask for counts once for each of them, but the share is never over 1.
        """
        return _useful_share(self.read_bytes, self.read_sectors)

    @property
    def written_share(self) -> float | None:
        """Likewise of the sectors written."""
        return _useful_share(self.written_bytes, self.written_sectors)


def _useful_share(n_bytes: int, n_sectors: int) -> float | None:
    return min(1.0, n_bytes / (n_sectors * SECTOR_BYTES)) if n_sectors else None


@dataclass(frozen=True)
class Loop:
    """How often the body of one loop ran in one launch; an unrolled loop is none.

    Attributes:
        turns: Over all programs.
        fewest, most: Of one program; a program that never came to the loop has 0.
    """

    file: str
    line: int
    source_line: str
    turns: int
    fewest: int
    most: int


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    Attributes:
        loops: In the order of their lines.
        n_passes: How often the Python kernel ran: 1 unless programs took different branches, the
            grid did not fit in memory at once, or a suspected race was looked into.
        specialisation: What Triton would compile; None while precision is lifted.
    """

    kernel: str
    grid: tuple[int, int, int]
    arguments: dict[str, ArgumentTraffic]
    n_programs: int
    n_passes: int
    specialisation: Specialisation | None = None
    loops: tuple[Loop, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something a kernel does that it must not (or, as a note, that staff may want to know).

    Attributes:
        program: Program id of the first occurrence.
        argument: The tensor argument concerned; empty when there is none.
        index: Index into that tensor; may lie outside its shape.
        count: Elements (or occurrences) that the same line, kind and argument stand for.
        advice: What to do about it.
    """

    kind: FindingKind
    kernel: str
    file: str
    line: int
    source_line: str
    program: tuple[int, int, int]
    argument: str
    index: tuple[int, ...] | None
    text: str
    count: int = 1
    advice: str = ""

    @property
    def counted(self) -> str:
        """The text, with how often that was seen."""
        # how many were never written is what that text begins with
        if self.count == 1 or self.kind == "never_written":
            return self.text
        return f"{self.text} ({self.count:,} {'times' if self.index is None else 'elements'})"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line} in {self.kernel}, program {self.program}"
        if self.kind == "never_written":
            # it is about no line and no program; the last kernel that wrote there is a hint
            place = f"the last kernel to write there was {self.kernel}, {self.file}:{self.line}"
            place = place if self.kernel else "no kernel wrote there"
        source = f"    {self.source_line}\n" if self.source_line else ""
        return f"{self.kind}: {place}\n{source}  {self.counted}\n  {self.advice}"


@dataclass
class Log:
    """Launches in order, and findings, one per kind, line and argument.

    Attributes:
        cache: The cache to model in every launch, if any.
    """

    launches: list[Launch] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    cache: Cache | None = None

    def add(self, new: list[Finding]) -> None:
        """Add findings, counting repeated ones."""
        merge(self.findings, new)


def merge(into: list[Finding], new: list[Finding]) -> None:
    """Add findings to a list that holds one per kind (a note: per advice), file, line and argument."""
    place = {_kind_of(f): i for i, f in enumerate(into)}
    for finding in new:
        key = _kind_of(finding)
        if key in place:
            at = place[key]
            into[at] = replace(into[at], count=into[at].count + finding.count)
        else:
            place[key] = len(into)
            into.append(finding)


def _kind_of(finding: Finding) -> tuple[object, ...]:
    # notes of different things may stand at one line, such as two about an atomic addition
    of_note = finding.advice if finding.kind == "note" else ""
    return finding.kind, finding.file, finding.line, finding.argument, of_note


_logs: list[Log] = []


@contextlib.contextmanager
def collecting(log: Log) -> Iterator[None]:
    """Hand every launch in this block to the log."""
    _logs.append(log)
    try:
        yield
    finally:
        _logs.pop()


def publish(launch: Launch, findings: list[Finding]) -> None:
    """Hand one finished (or failed) launch to all logs that are open."""
    for log in _logs:
        log.launches.append(launch)
        log.add(findings)


def last_launch() -> Launch | None:
    """The launch before, where anybody looks."""
    return _logs[-1].launches[-1] if _logs and _logs[-1].launches else None


def add_findings(findings: list[Finding]) -> None:
    """Hand findings that are about no single pass to all logs that are open."""
    for log in _logs:
        log.add(findings)


def is_recording() -> bool:
    """Whether anybody looks at launches now; checks cost nothing when nobody does."""
    return bool(_logs)


def cache_to_model() -> Cache | None:
    """The cache that the innermost log wants modelled, if any."""
    return _logs[-1].cache if _logs else None
