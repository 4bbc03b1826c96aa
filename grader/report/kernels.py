"""What the compiler made of the kernels, in a line for each problem; spills and notes by name."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from grader.report.wording import plain
from grader.scorecard import CompiledKernel, ProblemResult

MAX_NAMED = 4


def kernels(problems: Sequence[ProblemResult]) -> list[Text]:
    """Such as ``gelu: 12 kernels compiled for sm_90, 16 to 40 registers, no spills``."""
    lines = []
    for problem in problems:
        if problem.kernels:
            lines.append(Text(plain(f"{problem.name}: {_line(problem.kernels)}")))
        lines += [Text(plain(f"{problem.name}: {note}"), style="yellow") for note in problem.notes]
    return lines


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
