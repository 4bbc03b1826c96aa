"""The command line: exit codes, and a card that is valid whatever happens."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.scorecard import Scorecard, Status, Verdict
from tests.grader.course import ROOT, Course

SLOW_CALL = "import time\nimport torch\ndef slow(x):\n    time.sleep(1.5)\n    return 2 * x\n"


@pytest.fixture(scope="module")
def course(new_course: Callable[..., Course]) -> Course:
    """Two problems, one solved."""
    made = new_course("double", "slow")
    solution = (made.root / "reference" / "double" / "solution.py").read_text()
    made.submit({"double.py": solution, "slow.py": SLOW_CALL})
    return made


def processes_in(root: Path) -> list[str]:
    """Command lines of the processes whose arguments name this tree."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(root) in line:
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["nowhere"], "there is no folder nowhere", id="missing-folder"),
        pytest.param(["--problem", "tripel"], "there is no problem 'tripel'", id="problem"),
        pytest.param(["--case", "N9"], "no test has the case id 'N9'", id="case"),
        pytest.param(["reference/double"], "holds none of the files", id="folder-without-files"),
        pytest.param(["--out", "pyproject.toml"], "name another folder", id="out-is-a-file"),
        # it is there, and nobody can make a file in it
        pytest.param(["--out", "/proc"], "--out /proc: No such file", id="out-takes-no-files"),
        pytest.param(["--seed", "x"], "Invalid value for '--seed'", id="not-a-number"),
        pytest.param(["--device", "tpu"], "Invalid value for '--device'", id="device"),
    ],
)
def test_usage_error(course: Course, arguments: list[str], words: str) -> None:
    """What cannot be graded as asked is exit code 2 and one clear line, no traceback."""
    graded = course.run("grade", *arguments)

    assert graded.code == 2
    assert words in graded.said
    assert "Traceback" not in graded.said


def test_graded(course: Course) -> None:
    """A whole problem right: exit 0, all points that can be measured here, and a reason for speed."""
    graded = course.run("grade", "--problem", "double", "--min-score", "7.5", "--device", "cpu")

    assert graded.code == 0
    assert graded.card is not None
    assert graded.card.status is Status.GRADED
    assert (graded.card.score, graded.card.max_score_measured, graded.card.max_score) == (
        7.5,
        7.5,
        10,
    )
    assert {row.status for row in graded.card.performance} == {"not_measured"}
    assert all("GPU" in row.reason for row in graded.card.performance)
    assert "7.50 of 7.50 measured here, 10 in all" in graded.said


@pytest.mark.slow
def test_below_min_score(course: Course) -> None:
    """--min-score changes the exit code only."""
    # named twice, graded once
    graded = course.run(
        "grade", "--problem", "double", "--problem", "double", "--min-score", "7.51"
    )

    assert graded.code == 1
    assert graded.card is not None
    assert graded.card.status is Status.GRADED
    assert [problem.name for problem in graded.card.problems] == ["double"]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["| head -1; exit ${PIPESTATUS[0]}", ">/dev/full", "2>&- <&-"])
def test_where_the_output_goes_changes_no_grade(course: Course, shell: str) -> None:
    """A reader that left, a full disk, a closed stream; and options of pytest that are not ours."""
    command = shlex.join(course.command("grade", "--problem", "double"))

    ended = subprocess.run(
        ["bash", "-c", f"{command} {shell}"],
        check=False,
        cwd=course.root,
        env=os.environ | {"PYTEST_ADDOPTS": "-k nothing --no-such-option"},
        capture_output=True,
        timeout=300,
    )

    card = course.card()
    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False)
    assert card is not None
    assert (card.status, card.score) == (Status.GRADED, 7.5)


@pytest.mark.slow
def test_fault_of_the_grader(new_course: Callable[..., Course]) -> None:
    """A broken oracle is nobody's fault but ours: no score, exit 3, others keep their points."""
    course = new_course("double", "broken")
    path = course.root / "reference" / "broken" / "problem.py"
    path.write_text(path.read_text().replace("2 * x.double()", "x.no_such_method()"))

    graded = course.run("grade", "reference")

    assert graded.code == 3
    assert graded.card is not None
    assert graded.card.status is Status.GRADER_ERROR
    assert graded.card.score is None
    assert graded.score("broken") is None
    assert graded.score("double") == 7.5
    assert "fault of the grader" in graded.causes("broken")
    assert "no_such_method" in graded.causes("broken")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_leaves_a_partial_card(
    course: Course, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C, or a scheduler's or terminal's end: exit 130, a valid card that says partial, no rest."""
    process = subprocess.Popen(
        course.command("grade"),
        cwd=course.root,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # whoever runs the tests in the background has them ignore it, and so would the grader
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509  no threads here
    )
    wait_for_progress(course)
    process.send_signal(number)
    said = process.communicate(timeout=60)[0].decode()

    card = course.card()
    assert process.returncode == 130
    assert card is not None
    assert card.status is Status.PARTIAL
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not processes_in(course.root)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_kill_leaves_a_partial_card_and_no_process(course: Course) -> None:
    """Kill -9 at any moment leaves a valid card, and all workers die with the grader."""
    process = subprocess.Popen(
        course.command("grade"),
        cwd=course.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_progress(course)
    process.kill()
    process.wait()

    card = course.card()
    assert card is not None
    assert card.status is Status.PARTIAL
    deadline = time.monotonic() + 10
    while processes_in(course.root) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not processes_in(course.root)


def wait_for_progress(course: Course) -> None:
    """Until the first problem of a fresh run is in the card."""
    shutil.rmtree(course.root / "out", ignore_errors=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        card = course.card()
        if card is not None and card.reported_tests:
            return
        time.sleep(0.05)
    raise AssertionError("no problem was graded")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_full_disk_is_said(course: Course, tmp_path: Path) -> None:
    """A card that cannot be written is exit code 3 and one line; the card before it survives."""
    full = tmp_path / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "x", full], check=False).returncode:
        pytest.skip("no mounting here")
    try:
        graded = course.run("grade", "--problem", "double", "--out", str(full))
    finally:
        subprocess.run(["umount", full], check=True)

    assert graded.code == 3
    assert "No space left" in graded.said
    assert "Traceback" not in graded.said


def test_a_new_problem_is_one_new_folder(new_course: Callable[..., Course]) -> None:
    """Beside the five problems of the repository a sixth needs no edit anywhere."""
    course = new_course("double")
    for folder in (ROOT / "reference").iterdir():
        if (folder / "problem.py").is_file():
            shutil.copytree(folder, course.root / "reference" / folder.name)

    graded = course.run("grade", "reference", "--problem", "double", "--problem", "vector_add")

    assert graded.code == 0
    assert graded.card is not None
    assert [problem.name for problem in graded.card.problems] == ["vector_add", "double"]
    assert graded.score("double") == 7.5


def test_one_case_is_graded_alone(course: Course) -> None:
    """The rerun command of a message runs just that case, in all its groups."""
    graded = course.run("grade", "--problem", "double", "--case", "N5-float32", "--seed", "7")

    assert graded.code == 0
    assert graded.card is not None
    assert [test.id for test in graded.card.problems[0].tests] == ["forward[double-N5-float32]"]
    assert graded.card.problems[0].tests[0].verdict is Verdict.PASSED
    assert graded.card.status is Status.PARTIAL
    assert graded.card.reason == "only the case N5-float32 was asked for: no grade"


def test_a_file_named_as_its_problem_is_graded_as_it(course: Course) -> None:
    """A single file says which problem it solves by its name."""
    graded = course.run("grade", "assignment/double.py")

    assert graded.code == 0
    assert graded.card is not None
    assert graded.card.assignment.problems == ("double",)


def test_verify_knows_its_problems(course: Course) -> None:
    """A misspelt problem is a usage error that lists the right ones."""
    graded = course.run("verify", "duoble")

    assert graded.code == 2
    assert "there is no problem 'duoble' in reference/; problems: double, slow" in graded.said


def test_stubs_overwrite_nothing_that_is_not_saved(new_course: Callable[..., Course]) -> None:
    """What a student has begun stays, unless git could give it back or --force says so."""
    course = new_course()
    shutil.copytree(ROOT / "reference" / "gelu", course.root / "reference" / "gelu")
    course.submit({"gelu.py": "# begun\n"})
    begun = course.root / "assignment" / "gelu.py"

    refused = course.run("stubs")
    kept = begun.read_text()
    forced = course.run("stubs", "--force")

    assert refused.code == 2
    assert "not committed, so not overwritten: assignment/gelu.py" in refused.said
    assert kept == "# begun\n"
    assert forced.code == 0
    assert "TODO" in begun.read_text()
    assert "all stubs are current" in course.run("stubs").said


def test_schema_describes_the_card(course: Course) -> None:
    """The printed JSON Schema is the scorecard's."""
    graded = course.run("schema")

    assert graded.code == 0
    assert json.loads(graded.said) == Scorecard.model_json_schema()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["grade", "verify", "stubs", "trace", "doctor", "schema"])
def test_help_has_examples(course: Course, command: str) -> None:
    """Every command explains itself."""
    graded = course.run(command, "--help")

    assert graded.code == 0
    assert f"python -m grader {command}" in graded.said


def test_missing_packages_are_named(course: Course) -> None:
    """A Python without our packages gets one line that says which and how to get them."""
    ended = subprocess.run(
        [sys.executable, "-S", "-m", "grader", "doctor"],
        cwd=course.root,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "this Python has no typer" in ended.stderr
    assert "Traceback" not in ended.stderr
