"""A trace as text for a terminal: tables of counts by launch, then totals, then findings in full.

Works at any width and without colour. Text that student code had a hand in is shown with its
control characters escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from grader.report.columns import columns
from grader.report.kernels import compiled
from grader.report.wording import plain
from grader.seen import FindingSeen, LaunchSeen, LoopSeen, Trace, TrafficSeen

_HEADS = ("argument", "", "elements", "bytes", "sectors", "useful", "DRAM")
_N_LEFT = 2


def render(trace: Trace, *, width: int) -> RenderableType:
    """The whole trace."""
    parts: list[RenderableType] = [_title(trace)]
    if not trace.launches:
        parts.append(Text("No kernel was launched in this phase."))
    parts += [_launch(launch, width=width) for launch in trace.launches]
    if trace.n_launches > len(trace.launches):
        parts.append(Text(f"... and {trace.n_launches - len(trace.launches)} more launches"))
    parts += [_totals(trace), *_compiled(trace, width=width), *findings(trace.findings)]
    spaced = [piece for part in parts for piece in (part, Text())]
    return Group(*spaced[:-1])


def _title(trace: Trace) -> RenderableType:
    head = f"{trace.problem} {trace.case}, {trace.phase}, {trace.submission}"
    explained = (
        "elements, bytes and 32-byte sectors: as the kernels' loads and stores ask for them, "
        f"before any cache; useful: bytes asked for, of the sectors' bytes; DRAM: bytes that a cache of "
        f"{trace.cache_bytes >> 10} KB in 128-byte lines does not catch, {trace.in_flight} programs "
        "in flight (a model, no measurement)"
    )
    return Group(Text(plain(head), style="bold"), Text(explained, style="dim"))


def _launch(launch: LaunchSeen, *, width: int) -> RenderableType:
    grid = ", ".join(map(str, _short(launch.grid)))
    passes = "" if launch.n_passes == 1 else f", {launch.n_passes} simulator passes"
    head = f"{launch.kernel}[{grid}]  {_counted(launch.n_programs, 'program')}{passes}"
    rows = [row for name, moved in launch.arguments.items() for row in _rows(name, moved)]
    table = columns(_HEADS, rows, width=width, n_left=_N_LEFT) if rows else None
    shown: list[RenderableType] = [Text(plain(head), style="bold")]
    shown += [Text(plain(_loop(loop))) for loop in launch.loops]
    shown += [table] if table else [Text(_sentence(row)) for row in rows]
    return Group(*shown)


def _compiled(trace: Trace, *, width: int) -> list[RenderableType]:
    notes = [Text(plain(note)) for note in trace.compiler_notes]
    tables: list[RenderableType] = []
    if trace.compiled:
        head = (
            "as compiled, nothing was run. regs: registers of a thread; spills: bytes of them that a"
            " thread keeps in memory; shared: bytes of a block; loads: bits of one thread's load;"
            " tensor: uses tensor cores"
        )
        tables = [Text(head, style="dim"), *compiled(trace.compiled, width=width)]
    return [Group(*tables, *notes)] if tables or notes else []


def _short(grid: tuple[int, int, int]) -> tuple[int, ...]:
    """Without the sizes of 1 at the end, as the host code wrote it."""
    n = max((axis + 1 for axis in range(3) if grid[axis] != 1), default=1)
    return grid[:n]


def _loop(loop: LoopSeen) -> str:
    each = (
        _counted(loop.most, "turn")
        if loop.fewest == loop.most
        else f"{loop.fewest:,} to {_counted(loop.most, 'turn')}"
    )
    return (
        f"  loop at {loop.where}: {each} a program, {loop.turns:,} in all\n    {loop.source_line}"
    )


def _rows(name: str, moved: TrafficSeen) -> Iterator[list[str]]:
    if moved.read:
        n = moved.read, moved.read_bytes, moved.read_sectors
        yield [
            plain(name),
            "read",
            *_numbers(*n),
            _share(moved.read_share),
            _dram(moved, read=True),
        ]
    if moved.written:
        n = moved.written, moved.written_bytes, moved.written_sectors
        share = _share(moved.written_share)
        yield [plain(name), "written", *_numbers(*n), share, _dram(moved, read=False)]
    if moved.atomics:
        n_dram = (moved.dram_read_bytes or 0) + (moved.dram_written_bytes or 0)
        # what else the argument moved is in the rows above
        alone = not moved.read and not moved.written and moved.dram_read_bytes is not None
        yield [
            plain(name),
            "atomic",
            f"{moved.atomics:,}",
            "-",
            "-",
            "-",
            f"{n_dram:,}" if alone else "-",
        ]
    if not (moved.read or moved.written or moved.atomics):
        yield [plain(name), "unused", "0", "-", "-", "-", "-"]


def _numbers(*counts: int) -> list[str]:
    return [f"{n:,}" for n in counts]


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _dram(moved: TrafficSeen, *, read: bool) -> str:
    n_bytes = moved.dram_read_bytes if read else moved.dram_written_bytes
    return "-" if n_bytes is None else f"{n_bytes:,}"


def _sentence(row: Sequence[str]) -> str:
    named = zip(_HEADS[_N_LEFT:], row[_N_LEFT:], strict=True)
    told = ", ".join(f"{head} {cell}" for head, cell in named if cell != "-")
    return f"{row[0]} {row[1]}: {told}"


def _totals(trace: Trace) -> RenderableType:
    moved = [traffic for launch in trace.launches for traffic in launch.arguments.values()]
    asked = sum(traffic.read_bytes + traffic.written_bytes for traffic in moved)
    dram = sum((t.dram_read_bytes or 0) + (t.dram_written_bytes or 0) for t in moved)
    whole = "" if trace.phase == "forward" else ", forward and backward together"
    lines = [
        f"elements read {trace.read:,}{_of(trace.read, trace.allowed_read)}, written {trace.written:,}"
        + _of(trace.written, trace.allowed_written)
        + whole
    ]
    if trace.n_launches == len(trace.launches):
        least = trace.min_bytes
        lines.append(
            f"bytes asked for {asked:,}{_times(asked, least)}, DRAM {dram:,}{_times(dram, least)}; "
            f"no kernel can avoid {least:,}"
        )
    return Group(*map(Text, lines))


def _of(n: int, allowed: int | None) -> str:
    if allowed is None:
        return ""
    return f" of {allowed:,} allowed{' (too many)' if n > allowed else ''}"


def _times(n_bytes: int, least: int) -> str:
    return f" ({n_bytes / least:.2f}x)" if least else ""


def findings(found: Sequence[FindingSeen]) -> list[RenderableType]:
    """Each finding with its line, what is known of it, and what to do."""
    if not found:
        return [Text("Nothing was found: in bounds, all written before read, no race.")]
    return [_finding(each) for each in found]


def _finding(found: FindingSeen) -> RenderableType:
    style = "dim" if found.kind == "note" else "red"
    head = f"{found.kind.replace('_', ' ')} at {found.where}, program {found.program}"
    if found.kind == "never_written":
        # it has no line of its own; where the last kernel that wrote there begins, if any did
        head = (
            "never written" if found.where.startswith(":0") else f"never written by {found.where}"
        )
    lines = [Text(f"    {plain(found.source_line)}")] if found.source_line else []
    told = [
        Padding(Text(plain(text)), (0, 0, 0, 2), expand=False)
        for text in (found.text, found.advice)
    ]
    return Group(Text(plain(head), style=style), *lines, *[t for t in told if str(t.renderable)])


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
