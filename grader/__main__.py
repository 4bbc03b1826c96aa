"""The command line: arguments and exit codes only.

Exit codes: 0 graded, 1 below --min-score, 2 usage, 3 grader error, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn


def _lacks(module: str | None) -> NoReturn:
    print(
        f"error: this Python has no {module}. `make` sets up .venv with all that is needed; for an"
        " environment of your own: python3 -m pip install torch numpy ml_dtypes pydantic pytest"
        " pytest-json-report rich typer",
        file=sys.stderr,
    )
    sys.exit(2)


try:
    import typer
    from rich.console import Console

    from grader.commands import staff
    from grader.commands.lab import app as lab
    from grader.commands.trace import trace
    from grader.commands.verify import verify
    from grader.exits import BELOW_MIN_SCORE, GRADER_ERROR, INTERRUPTED, USAGE, fail, on_signals
except ModuleNotFoundError as error:
    _lacks(error.name)

if TYPE_CHECKING:
    from grader.scorecard import Scorecard

app = typer.Typer(
    help="Grades GPU-kernel assignments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# Imports of torch (about 2 s) stand inside the commands, so that --help and usage errors are quick.


@app.command()
def grade(
    path: Annotated[
        Path, typer.Argument(help="assignment, reference, another folder, or one file.")
    ] = Path("assignment"),
    problem: Annotated[
        list[str] | None, typer.Option(help="Only this problem; may be given several times.")
    ] = None,
    case: Annotated[str | None, typer.Option(help="Only the case with this id.")] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="auto takes the GPU where there is one, else the simulator."),
    ] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for scorecard.json.")] = Path("out"),
    seed: Annotated[
        int | None, typer.Option(min=0, help="Draw the same inputs again; secret by default.")
    ] = None,
    benchmark: Annotated[
        bool, typer.Option("--benchmark/--no-benchmark", help="Measure speed on a GPU.")
    ] = True,
    min_score: Annotated[
        float | None, typer.Option(min=0, help="Exit with 1 below this score.")
    ] = None,
) -> None:
    """Grade a submission: tests, then speed, then a scorecard.

    For example:

      python -m grader grade                    the stubs in assignment/

      python -m grader grade reference          the staff solutions

      python -m grader grade my.py --problem gelu

      python -m grader grade --problem softmax --case M63-N781-float32
    """
    # NumPy and torch take an exception while they are imported for something else
    on_signals(lambda *_: os._exit(INTERRUPTED))
    from grader import runner
    from grader.grading import Request, UsageError
    from grader.scorecard import Status

    on_signals(signal.default_int_handler)
    request = Request(path, tuple(problem or ()), case, device, seed)
    try:
        card = runner.grade(request, out, Console(stderr=True), benchmark=benchmark)
    except UsageError as error:
        fail(str(error), USAGE)
    except KeyboardInterrupt:
        fail(f"interrupted; {out / 'scorecard.json'} says how far it came", INTERRUPTED)
    except OSError as error:
        fail(f"the grading stopped, nothing is lost but this run: {error}", GRADER_ERROR)
    except Exception as error:  # noqa: BLE001  Python's own code 1 would say "below --min-score"
        _fault(error, out)
    _show(card, out)
    if card.status is Status.GRADER_ERROR:
        raise typer.Exit(GRADER_ERROR)
    if min_score is not None and (card.score is None or card.score < min_score):
        raise typer.Exit(BELOW_MIN_SCORE)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def simulate(
    file: Annotated[Path, typer.Argument(help="A Python script that launches Triton kernels.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed on to the script.")
    ] = None,
) -> None:
    """Run a script with the simulator in Triton's place, and tell what its kernels do wrong.

    No GPU is needed: device="cuda" is pretended, and torch.compile leaves functions as they are.
    breakpoint() works inside kernels. Exits as the script does; with 1 if it ended well, but a kernel
    reads or writes what it must not.

    SIM_PROGRAM=3, or 3,0 or 3,0,0 (ids along x, y, z) runs that one program of every grid, so that a
    debugger shows its values; softmax_kernel:3 does so for one kernel.

    For example:

      python -m grader simulate softmax.py

      SIM_PROGRAM=3,0 python -m grader simulate matmul.py --size 128
    """
    if not file.is_file():
        fail(f"there is no file {file}", USAGE)
    from grader.simulate import simulate as run_script
    from grader.simulator import single_program

    try:
        program = single_program.asked_for()
    except ValueError as error:
        fail(str(error), USAGE)
    try:
        raise typer.Exit(run_script(file, arguments or (), program))
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)


app.command()(trace)
app.add_typer(lab, name="lab")
for command in (verify, staff.stubs, staff.calibrate, staff.speeds):
    app.command()(command)


@app.command(name="doctor")
def run_doctor() -> None:
    """Say what this machine can do: versions, GPU, confinement, room.

    For example:

      python -m grader doctor
    """
    from grader import doctor

    findings = doctor.report()
    doctor.print_report(findings, Console())
    raise typer.Exit(doctor.exit_code(findings))


@app.command()
def schema() -> None:
    """Print the JSON Schema of scorecard.json.

    For example:

      python -m grader schema > scorecard.schema.json
    """
    from grader.scorecard import Scorecard

    print(json.dumps(Scorecard.model_json_schema(), indent=2))


def _show(card: Scorecard, out: Path) -> None:
    """Print the card. It is on disk, so the exit code says what it says, whoever reads."""
    from grader.report.terminal import print_card

    try:
        print_card(card, Console())
        print(f"scorecard: {out / 'scorecard.json'}", flush=True)
    except (OSError, SystemExit):  # a full disk, or a reader that left: rich raises SystemExit(1)
        # nothing is left to flush; as Python itself does where stdout is closed
        sys.stdout = None


def _fault(error: Exception, out: Path) -> NoReturn:
    """Say that it is our fault, and leave what helps to repair it in a file."""
    told = out / "grader-error.txt"
    try:
        told.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError:
        traceback.print_exception(error)
    fail(
        f"a fault of the grader, not of your code ({type(error).__name__}: {error});"
        f" please report it with {told}",
        GRADER_ERROR,
    )


if __name__ == "__main__":
    try:
        app()
    except ModuleNotFoundError as error:
        _lacks(error.name)
