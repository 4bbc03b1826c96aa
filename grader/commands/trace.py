"""The command `trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from grader.exits import BELOW_MIN_SCORE, GRADER_ERROR, USAGE, fail


def trace(
    problem: Annotated[str, typer.Argument(help="The problem's name.")],
    submission: Annotated[
        Path, typer.Option(help="assignment, reference, another folder, or one file.")
    ] = Path("assignment"),
    case: Annotated[
        str | None, typer.Option(help="A case id; by default the public case that moves most.")
    ] = None,
    phase: Annotated[
        Literal["forward", "backward", "both"], typer.Option(help="Which launches to show.")
    ] = "forward",
    cache_kb: Annotated[
        int, typer.Option(min=1, help="Size of the modelled cache, to scale it to the matrices.")
    ] = 128,
    in_flight: Annotated[
        int, typer.Option(min=1, help="Programs that the cache model runs at once.")
    ] = 8,
    arch: Annotated[
        list[str] | None,
        typer.Option(help="Compile for this GPU; may be given several times. sm_80 and sm_90."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print data instead of tables.")] = False,
) -> None:
    """Run one case in the simulator and show what each launch moves, and what it finds.

    Programs, loop trips, elements, bytes and 32-byte sectors of each argument, DRAM traffic by a
    model of the cache, totals against the problem's bounds; then findings with their lines.
    Where Triton is installed: registers, spills, shared memory, occupancy, width of loads and use of
    tensor cores, as its compiler says for each --arch, without that GPU.
    Exits with 1 where something is found (a note is nothing) or the code fails.

    For example:

      python -m grader trace softmax

      python -m grader trace gelu --submission my.py --phase both

      python -m grader trace matmul_relu --submission reference --cache-kb 16

      python -m grader trace softmax --case M63-N781-float32 --json
    """
    from grader import discover
    from grader import trace as tracing
    from grader.report.trace import render
    from grader.sandbox.client import StudentFaultError
    from grader.sandbox.launcher import LaunchError
    from grader.settings import parsed_arch
    from grader.simulator import Cache

    cache = Cache(cache_kb << 10, in_flight)
    try:
        arches = [parsed_arch(name) for name in arch or ("sm_80", "sm_90")]
        seen = tracing.trace(submission, problem, case, phase, cache, discover.REFERENCE, arches)
    except ValueError as error:
        fail(str(error), USAGE)
    except StudentFaultError as fault:
        told = (f"{problem}: {fault.what}", *fault.details)
        fail("\n".join(part for part in told if part), BELOW_MIN_SCORE)
    except LaunchError as error:
        fail(f"a fault of the grader, not of your code: {error}", GRADER_ERROR)
    if as_json:
        print(seen.model_dump_json(indent=2))
    else:
        console = Console()
        console.print(render(seen, width=console.width), crop=False)
    if any(finding.kind != "note" for finding in seen.findings):
        raise typer.Exit(BELOW_MIN_SCORE)
