"""Setting up and running through make, with a Python that only pretends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("test", "grade", "verify", "stubs", "check", "fix")

# stands for Python, pip and the virtual environment's Python: writes down how it was called
FAKE_PYTHON = """#!/bin/sh
echo "$@" >>"$CALLS"
case "$*" in
    -V) echo "Python ${FAKE_VERSION:-3.11.7}" ;;
    -c*version_info*) [ "${FAKE_VERSION:-3.11.7}" != 3.8.18 ] || exit 1 ;;
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    "-m pytest tests/submission"*) exit ${PYTEST_ENDS:-0} ;;
    "-m pip"*) echo "Collecting torch"; echo "  Downloading torch-9-cp311.whl (190.1 MB)"
        [ -z "$PIP_FAILS" ] || { echo "ERROR: no network" >&2; exit 1; } ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


class Course:
    """A folder with our Makefile, and a Python that only pretends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder / name)
        self.python = folder / "fake" / "python3"
        self.python.parent.mkdir()
        self.python.write_text(FAKE_PYTHON)
        self.python.chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run make with the pretending Python first on the path."""
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """Ours without what an outer make put there, and the pretending Python first."""
        outer = re.compile("MAKE|MFLAGS|PYTHON|PIP_ARGS|ARGS|SUBMISSION|DIRECT")
        inherited = {name: v for name, v in os.environ.items() if not outer.match(name)}
        path = f"{self.python.parent}:{os.environ['PATH']}"
        return inherited | {"PATH": path, "CALLS": str(self.log)}

    @property
    def log(self) -> Path:
        """Where the pretending Python writes its calls."""
        return self.folder / "calls"

    def calls(self) -> list[str]:
        """The calls so far, without questions for the version; forgets them."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line for line in lines if line.startswith("-m")]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A fresh clone, as far as make can tell."""
    return Course(tmp_path)


def test_without_a_target_the_targets_are_listed(course: Course) -> None:
    """Nothing is set up to read the help."""
    done = course.make()

    assert done.returncode == 0
    assert all(f"make {target}" in done.stdout for target in TARGETS)
    assert not (course.folder / ".venv").exists()


def test_the_environment_is_set_up_once(course: Course) -> None:
    """The first target makes .venv with the pinned versions, the second only runs."""
    done = course.make("verify")
    first = course.calls()
    course.make("verify")

    assert done.returncode == 0, done.stderr
    assert first[0] == "-m venv .venv"
    assert "-c constraints.txt" in first[1]
    assert first[2:] == course.calls() == ["-m grader verify"]


def test_pip_says_what_is_large_and_no_more(course: Course) -> None:
    """Progress is visible, the list of small packages is not."""
    done = course.make("stubs")

    assert "  downloading torch-9-cp311.whl (190.1 MB)\n" in done.stdout
    assert "Collecting" not in done.stdout


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_changed_dependencies_are_installed(course: Course, changed: str) -> None:
    """The installer runs again in the same environment."""
    course.make("stubs")
    course.calls()
    later = (course.folder / ".venv/.ready").stat().st_mtime + 10
    os.utime(course.folder / changed, (later, later))

    course.make("stubs")

    calls = course.calls()
    assert "-m venv .venv" not in calls
    assert any(call.startswith("-m pip install") for call in calls)


def test_a_failed_set_up_starts_over(course: Course) -> None:
    """Nothing runs in a half-made environment, and the next make makes it anew."""
    failed = course.make("stubs", PIP_FAILS="1")
    (course.folder / ".venv/leftover").touch()
    calls = course.calls()
    again = course.make("stubs")

    assert failed.returncode != 0
    assert "ERROR: no network" in failed.stderr
    assert "-m grader stubs" not in calls
    assert again.returncode == 0
    assert "interrupted; starting over" in again.stdout
    assert not (course.folder / ".venv/leftover").exists()


def test_an_environment_made_by_hand_is_kept(course: Course) -> None:
    """Packages are added to it; it is never removed, not even after a failure."""
    (course.folder / ".venv/bin").mkdir(parents=True)
    shutil.copy(course.python, course.folder / ".venv/bin/python")
    (course.folder / ".venv/mine").touch()

    course.make("stubs", PIP_FAILS="1")
    done = course.make("stubs")

    assert done.returncode == 0
    assert (course.folder / ".venv/mine").exists()


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_named_python_is_used_as_it_is(course: Course, how: str) -> None:
    """No .venv, no pip: for GPU machines without a network."""
    if how == "argument":
        done = course.make("verify", f"PYTHON={course.python}")
    else:
        done = course.make("verify", PYTHON=str(course.python))

    assert done.returncode == 0, done.stderr
    assert course.calls() == ["-m grader verify"]
    assert not (course.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        pytest.param((), {"FAKE_VERSION": "3.8.18"}, "python3 is Python 3.8.18, but", id="old"),
        pytest.param(("PYTHON3=python9",), {}, "no python9 here", id="missing"),
    ],
)
def test_an_unfit_python_is_named_with_what_to_do(
    course: Course, arguments: tuple[str, ...], environment: dict[str, str], message: str
) -> None:
    """Which version is needed and how to name another; nothing is made."""
    done = course.make("test", *arguments, **environment)

    assert done.returncode != 0
    assert message in done.stderr
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "make PYTHON3=python3.12" in done.stderr
    assert not (course.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(("grade",), ["-m grader grade assignment"], id="assignment-by-default"),
        pytest.param(
            ("grade", "SUBMISSION=reference", "ARGS=--problem gelu --seed 3"),
            ["-m grader grade reference --problem gelu --seed 3"],
            id="arguments-are-passed-on",
        ),
        pytest.param(
            ("check",),
            ["-m ruff format --check .", "-m ruff check .", "-m mypy", "-m grader stubs --check"],
            id="check",
        ),
        pytest.param(("fix",), ["-m ruff format .", "-m ruff check --fix ."], id="fix"),
    ],
)
def test_targets_run_what_they_say(
    course: Course, arguments: tuple[str, ...], want: list[str]
) -> None:
    """The commands behind the targets; check never writes."""
    done = course.make(*arguments, f"PYTHON={course.python}")

    assert done.returncode == 0, done.stderr
    assert [call.strip() for call in course.calls()] == want


def test_test_runs_both_submissions_then_the_harness(course: Course) -> None:
    """The stubs must be gradable, the reference must pass; ARGS narrow these two."""
    course.make("test", f"PYTHON={course.python}", "ARGS=--problem gelu")

    assert [call.strip() for call in course.calls()] == [
        "-m pytest tests/submission --submission assignment -rfE --problem gelu",
        "-m pytest tests/submission --submission reference -rfE --problem gelu",
        "-m pytest -m not slow and not gpu",
    ]


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_test_of_one_submission(course: Course, how: str) -> None:
    """The folder that is named, and nothing else; DIRECT=1 takes it, too."""
    named = ("SUBMISSION=my folder",) if how == "argument" else ()
    environment = {"SUBMISSION": "my folder"} if how == "environment" else {}

    course.make("test", f"PYTHON={course.python}", *named, **environment)
    course.make("test", "DIRECT=1", f"PYTHON={course.python}", *named, **environment)

    assert [call.strip() for call in course.calls()] == [
        "-m pytest tests/submission --submission my folder -rfE",
        "-m pytest tests/submission --submission my folder --direct -rfE",
    ]


def test_direct_is_for_tests_of_one_submission(course: Course) -> None:
    """And refused, with what to write instead, where marks are given."""
    course.make("test", "DIRECT=1", f"PYTHON={course.python}", "ARGS=--problem gelu")
    refused = course.make("grade", "DIRECT=1", f"PYTHON={course.python}")

    assert [call.strip() for call in course.calls()] == [
        "-m pytest tests/submission --submission assignment --direct -rfE --problem gelu"
    ]
    assert refused.returncode != 0
    assert "never for marks: make test DIRECT=1" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "succeeds"),
    [
        pytest.param(("ARGS=-k nothing",), True, id="a-selection-may-be-empty"),
        pytest.param((), False, id="the-whole-may-not"),
    ],
)
def test_no_test_at_all(course: Course, arguments: tuple[str, ...], succeeds: bool) -> None:
    """Exit code 5 of pytest, no test collected, is a failure unless ARGS selected."""
    done = course.make("test", f"PYTHON={course.python}", *arguments, PYTEST_ENDS="5")

    assert (done.returncode == 0) is succeeds


def test_a_failed_test_fails_make(course: Course) -> None:
    """With or without a selection."""
    done = course.make("test", f"PYTHON={course.python}", "ARGS=-x", PYTEST_ENDS="1")

    assert done.returncode != 0


@pytest.mark.parametrize(
    ("ends", "succeeds"), [pytest.param("0", True, id="pass"), pytest.param("1", False, id="fail")]
)
def test_continuous_integration_checks_then_tests(
    course: Course, ends: str, succeeds: bool
) -> None:
    """From any folder; it fails where a test fails, and pytest has the last word."""
    (course.folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", course.folder / ".ci/run")
    own = {"PYTHON": str(course.python), "PYTEST_ENDS": ends}

    done = subprocess.run(
        [course.folder / ".ci/run"],
        cwd="/",
        env=course.environment() | own,
        capture_output=True,
        text=True,
        check=False,
    )

    calls = course.calls()
    assert (done.returncode == 0) is succeeds
    assert calls[0].startswith("-m ruff format --check")
    assert calls[4].startswith("-m pytest")
    assert "+ make check\n" in done.stdout
    # what needs Triton gets it, and the last word is not its
    with_triton = [call.strip() for call in calls if "triton and not gpu" in call]
    assert with_triton == (["-m pytest -m triton and not gpu"] if succeeds else [])
    assert "triton" not in calls[-1]


def test_two_makes_at_once_set_up_once(course: Course) -> None:
    """The second waits for the first."""
    if shutil.which("flock") is None:
        pytest.skip("without flock there is no lock")
    both = "make stubs & make stubs; wait"

    subprocess.run(
        ["sh", "-c", both],
        cwd=course.folder,
        env=course.environment(),
        check=True,
        capture_output=True,
    )

    assert course.calls().count("-m venv .venv") == 1


def pinned() -> dict[str, str]:
    """Normalised name to version, from constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {normal(name): version for name, version in pairs}


def normal(requirement: str) -> str:
    """The name of a requirement as package indexes compare it."""
    name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_pinned() -> None:
    """What is tested is what is installed; gpu runs use the machine's own packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["dev"] + extras["triton"]

    assert {normal(requirement) for requirement in wanted} <= pinned().keys()


def test_pins_have_no_local_part() -> None:
    """A CPU build and any other of the same version satisfy the pin."""
    assert not [version for version in pinned().values() if "+" in version]
    assert pinned()["torch"] == "2.13.0"


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_targets_that_exist(document: str) -> None:
    """Nothing is promised that make does not know."""
    named = set(re.findall(r"(?:^ +|`)make ([a-z]+)", (ROOT / document).read_text(), re.MULTILINE))

    assert named
    assert named <= set(TARGETS)
