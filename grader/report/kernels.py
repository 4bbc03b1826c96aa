"""What the compiler made of the kernels: a line for each problem of a card, a table for a trace."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from grader.report.columns import columns
from grader.report.wording import plain
from grader.scorecard import ProblemResult
from grader.seen import CompiledKernel

MAX_NAMED = 4
_HEADS = (
    "kernel",
    "for",
    "warps",
    "regs",
    "spills",
    "shared",
    "occupancy",
    "loads",
    "tensor",
)
_N_LEFT = 2


def compiled(made: Sequence[CompiledKernel], *, width: int) -> list[RenderableType]:
    """A row for each kernel, config and GPU; sentences where the terminal is too narrow."""
    rows = [_row(kernel) for kernel in made]
    table = columns(_HEADS, rows, width=width, n_left=_N_LEFT)
    if table:
        return [table]
    sentences = []
    for row in rows:
        named = zip(_HEADS[_N_LEFT:], row[_N_LEFT:], strict=True)
        facts = ", ".join(f"{head} {cell}" for head, cell in named)
        sentences.append(Text(f"{row[0]} for {row[1]}: {facts}"))
    return [*sentences]


def _row(kernel: CompiledKernel) -> list[str]:
    share = kernel.occupancy_pct
    return [
        plain(kernel.kernel),
        kernel.target,
        str(kernel.num_warps),
        "?" if kernel.registers is None else str(kernel.registers),
        "?" if kernel.spill_bytes is None else str(kernel.spill_bytes),
        f"{kernel.shared_bytes:,}",
        "?" if share is None else f"{share:.0f}%",
        _loads(kernel),
        "yes" if kernel.tensor_cores else "no",
    ]


def _loads(kernel: CompiledKernel) -> str:
    """Width of one thread's loads in bits, the narrowest and the widest; TMA loads whole tiles."""
    low, high = kernel.narrowest_load_bits, kernel.load_bits
    widths = [] if low is None or high is None else ["-".join(map(str, sorted({low, high})))]
    return " and ".join(widths + ["TMA"] * kernel.bulk_loads) or "none"


def kernels(problems: Sequence[ProblemResult]) -> list[Text]:
    """Such as ``gelu: 12 kernels compiled for sm_90, 16 to 40 registers, no spills``."""
    return [line for p in problems for line in told(p.name, p.kernels, p.notes)]


def told(problem: str, made: Sequence[CompiledKernel], notes: Sequence[str]) -> list[Text]:
    """The lines of one problem; none where nothing was compiled."""
    lines = [Text(plain(f"{problem}: {_line(made)}"))] if made else []
    return lines + [Text(plain(f"{problem}: {note}"), style="yellow") for note in notes]


def _line(made: Sequence[CompiledKernel]) -> str:
    targets = ", ".join(sorted({kernel.target for kernel in made}))
    parts = [f"{len(made)} kernel{'' if len(made) == 1 else 's'} compiled for {targets}"]
    registers = [kernel.registers for kernel in made if kernel.registers is not None]
    if registers:
        parts.append(f"{_span(registers)} registers")
        parts.append(_spills(made))
    shares = [round(kernel.occupancy_pct) for kernel in made if kernel.occupancy_pct is not None]
    if shares:
        parts.append(f"occupancy {_span(shares)} %")
    return ", ".join(parts)


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _spills(made: Sequence[CompiledKernel]) -> str:
    worst: dict[str, int] = {}
    for kernel in made:
        if kernel.spill_bytes:
            worst[kernel.kernel] = max(worst.get(kernel.kernel, 0), kernel.spill_bytes)
    if not worst:
        return "no spills"
    named = [f"{name} spills {n} bytes a thread" for name, n in worst.items()]
    more = [f"{len(named) - MAX_NAMED} more kernels spill"] if len(named) > MAX_NAMED else []
    return ", ".join(named[:MAX_NAMED] + more)
