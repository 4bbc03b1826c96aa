"""The commands of ``python -m grader lab``: arguments, tables and exit codes only."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from grader.exits import FAILED, USAGE, fail

if TYPE_CHECKING:
    import torch

    from grader.lab.compare import Comparison, Timed
    from grader.lab.compare_tables import Circumstances
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


@app.command()
def compare(
    what: Annotated[
        list[str] | None, typer.Argument(help="gelu, softmax or square; all by default.")
    ] = None,
    device: Annotated[str, typer.Option(help="A GPU, such as cuda or cuda:1.")] = "cuda",
    size: Annotated[
        int | None, typer.Option(min=1, help="Rows and columns of the matrix; 16384 by default.")
    ] = None,
    calls: Annotated[int, typer.Option(min=5, help="Timed calls of each way.")] = 40,
    out: Annotated[Path | None, typer.Option(help="Write the Markdown to this file, too.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of Markdown.")
    ] = False,
) -> None:
    """Time GELU, softmax and square several ways, beside the course notes' times. Needs a GPU.

    GELU: the plain formula, PyTorch's own, CUDA C++ by load_inline, Triton and torch.compile. Softmax:
    the same without CUDA. Square: three ways in PyTorch, Triton well and badly launched, CUDA and
    torch.compile. A way whose tool is missing (nvcc, Triton) says so and has no time.

    For example:

      python -m grader lab compare gelu

      python -m grader lab compare --out handout/results/gelu-softmax-h200.md
    """
    from grader.lab import compare_tables
    from grader.lab.comparisons import COMPARISONS

    names = tuple(dict.fromkeys(what or COMPARISONS))
    unknown = [name for name in names if name not in COMPARISONS]
    if unknown:
        fail(f"there is no comparison {unknown[0]!r}: choose from {', '.join(COMPARISONS)}", USAGE)
    chosen = [COMPARISONS[name]() for name in names]
    gpu = _gpu(device)
    tables: list[tuple[Comparison, list[Timed]]] = []
    for circumstances, table in _compared(chosen, gpu, size, calls):
        tables.append(table)
        # after each, so that what is measured is kept whatever comes next
        text = compare_tables.markdown(circumstances, tables)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(text + "\n", encoding="utf-8")
    print(json.dumps(compare_tables.as_json(circumstances, tables), indent=2) if as_json else text)


def _gpu(device: str) -> torch.device:
    """The GPU of this name; a usage error where there is none."""
    import torch

    try:
        found = torch.device(device)
    except RuntimeError:
        fail(f"--device {device}: no device of torch's has this name; want cuda or cuda:1", USAGE)
    if found.type != "cuda":
        fail(f"--device {device}: time on another processor says nothing about a GPU", USAGE)
    if not torch.cuda.is_available():
        fail("there is no GPU here, and this compares times on one", USAGE)
    n = torch.cuda.device_count()
    if (found.index or 0) >= n:
        fail(f"--device {device}: there are {n} here, counted from cuda:0", USAGE)
    return found


def _compared(
    chosen: list[Comparison], device: torch.device, size: int | None, n_calls: int
) -> Iterator[tuple[Circumstances, tuple[Comparison, list[Timed]]]]:
    """Time them on one GPU, one after the other; tells what goes on as it does."""
    import datetime as dt
    import random

    import torch

    from grader.doctor import environment
    from grader.lab.compare import copy_bytes_per_s, load, times
    from grader.lab.compare_tables import Circumstances
    from grader.lab.comparisons import DEFAULT_SIZE, NOTES_GPU
    from grader.measure.stopwatch import CudaStopwatch

    def tell(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    n = size or DEFAULT_SIZE
    with torch.cuda.device(device):
        loaded = load(chosen, tell)
        circumstances = Circumstances(
            environment=environment("cuda"),
            date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
            command=_command([comparison.name for comparison in chosen], n, n_calls),
            n=n,
            n_calls=n_calls,
            copy_bytes_per_s=copy_bytes_per_s(CudaStopwatch(device), n_calls),
            notes_gpu=NOTES_GPU,
        )
        tell(f"a copy: {circumstances.copy_bytes_per_s / 1e12:.3f} TB/s")
        for comparison in chosen:
            rows = times(
                comparison,
                loaded,
                n,
                n_calls,
                lambda: CudaStopwatch(device),
                random.SystemRandom(),
                tell,
            )
            yield circumstances, (comparison, rows)


def _command(names: list[str], n: int, n_calls: int) -> str:
    """What to type to measure the same again, wherever the result goes."""
    return f"python -m grader lab compare {' '.join(names)} --size {n} --calls {n_calls}"


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
