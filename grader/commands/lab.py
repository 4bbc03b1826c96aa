"""The commands of ``python -m grader lab``: arguments, tables and exit codes only."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from grader.exits import FAILED, USAGE, fail

if TYPE_CHECKING:
    from grader.lab.simulator import KernelSpeed

app = typer.Typer(help="Experiments: see why something is slow.", no_args_is_help=True)


@app.callback()
def lab() -> None:
    """Experiments: see why something is slow."""


@app.command()
def simulator(
    problem: Annotated[
        list[str] | None, typer.Argument(help="Problems of the course; all by default.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=2, help="How often each way runs; the best time counts.")
    ] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Time the simulator beside Triton's interpreter, on the reference kernels.

    Both run the same launches in one process: of each problem the largest public case, forward and
    backward, with the launch parameters that the solution chooses. Values are compared. Needs
    Triton; no GPU.

    For example:

      python -m grader lab simulator

      python -m grader lab simulator softmax matmul_relu --rounds 15 --json
    """
    from grader import discover
    from grader.lab import simulator as speed

    console = Console(stderr=True)
    kernels: list[KernelSpeed] = []
    differences: list[str] = []
    try:
        problems = discover.load_problems(tuple(problem or ()))
        speed.require_interpreter()
        for each in problems:
            if each.kind == "kernel":
                with console.status(f"{each.name}: both ways, {rounds} rounds"):
                    measured = speed.measure(each, rounds)
                kernels += measured.kernels
                differences += measured.differences
    except (ValueError, speed.UnavailableError) as error:
        fail(str(error), USAGE)
    if as_json:
        print(json.dumps(_as_json(kernels), indent=2))
    else:
        _print_table(kernels)
    if differences:
        fail("the values of the two differ:\n" + "\n".join(differences), FAILED)


def _means(kernels: list[KernelSpeed]) -> tuple[float, float]:
    from grader.lab.simulator import geometric_mean

    return (
        geometric_mean([k.ratio for k in kernels]),
        geometric_mean([k.unchecked_ratio for k in kernels]),
    )


def _as_json(kernels: list[KernelSpeed]) -> dict[str, Any]:
    checked, unchecked = _means(kernels)
    return {
        "kernels": [
            {
                "name": f"{k.problem}/{k.kernel}",
                "ratio": k.ratio,
                "unchecked_ratio": k.unchecked_ratio,
                **asdict(k),
            }
            for k in kernels
        ],
        "geomean": checked,
        "unchecked_geomean": unchecked,
    }


def _print_table(kernels: list[KernelSpeed]) -> None:
    print(
        "Simulator beside Triton's interpreter: best of all rounds, in ms, and how many\n"
        "times faster; with every check on, and with checks off\n"
    )
    # names last, so that the numbers stay in one line where there is little room
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in ("on", "off", "Triton", "faster", "off"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("kernel and case", overflow="fold")
    for k in kernels:
        times = f" x{k.n_launches}" if k.n_launches > 1 else ""
        table.add_row(
            f"{k.checked_ms:.2f}",
            f"{k.unchecked_ms:.2f}",
            f"{k.interpreter_ms:.1f}",
            f"{k.ratio:.1f}x",
            f"{k.unchecked_ratio:.1f}x",
            f"{k.kernel}{times}\n  {k.case}",
        )
    checked, unchecked = _means(kernels)
    table.add_row("", "", "", f"{checked:.1f}x", f"{unchecked:.1f}x", "geometric mean")
    Console().print(table)
