"""Commands of staff: thresholds, what was measured as a table, stubs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from grader.exits import BELOW_MIN_SCORE, USAGE, fail
from grader.report.wording import plain

if TYPE_CHECKING:
    from grader.scorecard import Scorecard
    from grader.spec import Problem

ROOT = Path(__file__).resolve().parents[2]


def calibrate(
    card: Annotated[
        Path, typer.Argument(help="A scorecard of the reference, made on the course's GPU.")
    ] = Path("out/scorecard.json"),
    baseline: Annotated[
        Literal["eager", "builtin", "compile", "roofline"] | None,
        typer.Option(help="What speed is paid against; by default what each problem says."),
    ] = None,
    problem: Annotated[
        list[str] | None, typer.Option(help="Only this problem; may be given several times.")
    ] = None,
) -> None:
    """Set the thresholds for speed from a scorecard of the reference, with 10 % to spare.

    Thresholds hold for one GPU model; those of other models stay as they are, and so do those of
    problems that the scorecard does not hold.

    For example:

      make grade SUBMISSION=reference PYTHON=python3 && python3 -m grader calibrate

      python -m grader calibrate card-of-the-reference.json --baseline eager --problem gelu
    """
    from grader import calibrate as calibration
    from grader.discover import REFERENCE

    measured = _read(card, "; grade the reference first")
    try:
        if problem:
            measured = calibration.only(measured, problem)
        problems = _problems_of(measured, card)
        calibration.check_cases(measured, problems)
        against = {each.name: baseline or each.paid_against for each in problems}
        written = calibration.calibrate(measured, against, REFERENCE)
    except calibration.CalibrationError as error:
        fail(plain(f"{card}: {error}"), USAGE)
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}", USAGE)
    except ValueError as error:
        # of the problems, not of the card
        fail(plain(str(error)), USAGE)
    for path in written:
        print(f"written: {path.relative_to(ROOT)}")


def speeds(
    card: Annotated[Path, typer.Argument(help="A scorecard made on a GPU.")] = Path(
        "out/scorecard.json"
    ),
) -> None:
    """Print the speeds of a scorecard as a Markdown table.

    For example:

      python -m grader speeds out/scorecard.json > speeds.md
    """
    from grader.report import markdown

    measured = _read(card)
    try:
        print(markdown.speeds(measured), end="")
    except ValueError as error:
        fail(f"{card}: {error}", USAGE)


def _problems_of(measured: Scorecard, card: Path) -> tuple[Problem, ...]:
    from grader import discover

    try:
        return discover.load_problems([problem.name for problem in measured.problems])
    except ValueError as error:
        fail(plain(f"problems of {card}: {error}"), USAGE)


def _read(card: Path, advice: str = "") -> Scorecard:
    """The card, or the end of the command."""
    from grader import card_file

    try:
        return card_file.load(card)
    except OSError as error:
        fail(f"{card}: {error.strerror}{advice}", USAGE)
    except ValueError as error:
        fail(plain(f"{card}: {error}"), USAGE)


def stubs(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if any is stale.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that git could not give back, too.")
    ] = False,
) -> None:
    """Generate the stubs in assignment/ from the solutions in reference/.

    A file in assignment/ with changes that are not committed is not overwritten: somebody may have
    begun to fill it.

    For example:

      python -m grader stubs

      python -m grader stubs --check
    """
    from grader.release import markers
    from grader.release import stubs as release

    reference, assignment = ROOT / "reference", ROOT / "assignment"
    try:
        stale = release.stale_stubs(reference, assignment)
        unsaved = [] if check or force else [path for path in stale if _unsaved(path)]
        if unsaved:
            names = ", ".join(str(path.relative_to(ROOT)) for path in unsaved)
            fail(f"not committed, so not overwritten: {names} (--force overwrites)", USAGE)
        changed = stale if check else release.write_stubs(reference, assignment)
    except markers.StubError as error:
        fail(str(error), USAGE)
    for path in changed:
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
    if not changed:
        print("all stubs are current")
    if check and changed:
        fail("run `make stubs` and commit the result", BELOW_MIN_SCORE)


def _unsaved(path: Path) -> bool:
    """Whether a file holds something that git could not give back."""
    if not path.exists():
        return False
    asked = subprocess.run(
        ["git", "status", "--porcelain", "--", path.name],
        cwd=path.parent,
        check=False,
        capture_output=True,
    )
    return asked.returncode != 0 or bool(asked.stdout)
