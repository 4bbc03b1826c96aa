"""What verify complains of, and what it does not: made-up gradings, then whole made-up courses."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from grader.discover import load_problem
from grader.scorecard import Verdict
from grader.soundness import Ended, Examined, complaints, lacking
from grader.spec import Group, Problem
from grader.specimens import Expectation, Part, Specimen, read_expectation, specimens
from tests.grader.course import SOLUTION, Course

PASSED, WRONG, STUB = Verdict.PASSED, Verdict.WRONG_VALUE, Verdict.NOT_IMPLEMENTED
UNCHECKED, BOUNDS = Verdict.NOT_CHECKABLE, Verdict.OUT_OF_BOUNDS


def graded(
    part: Part,
    *verdicts: tuple[Group, str, Verdict],
    points: tuple[float | None, float | None] = (3.0, 3.0),
    expected: Expectation | None = None,
) -> Examined:
    """A specimen of a problem "double" whose tests ended so."""
    specimen = Specimen("double", part, Path(f"{part}.py"), expected=expected)
    return Examined(specimen, tuple(Ended(*v, cause="why") for v in verdicts), *points, 1.0)


def told(examined: Examined, *, allows_unchecked: bool = False) -> list[str]:
    """First lines of the complaints."""
    found = complaints(examined, allows_unchecked=allows_unchecked)
    return [text.partition("\n")[0] for text in found]


def test_good_solution_and_stub_are_as_they_must_be() -> None:
    """All passed and all points; all not implemented and none."""
    solution = graded("solution", ("forward", "a", PASSED), ("memory", "b", PASSED))
    stub = graded("stub", ("forward", "a", STUB), points=(0.0, 3.0))

    assert told(solution) == told(stub) == []


@pytest.mark.parametrize(
    ("examined", "want"),
    [
        pytest.param(
            graded("solution", ("forward", "a", WRONG), points=(1.0, 3.0)),
            [
                "double/solution: forward [a] is wrong_value, must be passed",
                "double/solution: earns 1.0 of 3.0 points, must earn all of them",
            ],
            id="a solution that fails a test",
        ),
        pytest.param(
            graded("solution", ("forward", "a", PASSED), points=(None, None)),
            ["double/solution: earns None of None points, must earn all of them"],
            id="a solution without a score",
        ),
        pytest.param(
            graded("solution", ("forward", "a", PASSED), points=(0.0, 0.0)),
            ["double/solution: earns 0.0 of 0.0 points, must earn all of them"],
            id="a solution of a problem worth nothing",
        ),
        pytest.param(
            graded("solution", ("forward", "a", UNCHECKED), ("forward", "b", PASSED)),
            ["double/solution: forward [a] is not_checkable, must be passed"],
            id="a kernel that the simulator cannot run",
        ),
        pytest.param(
            graded("stub", ("forward", "a", PASSED), ("forward", "b", STUB), points=(0.1, 3.0)),
            [
                "double/stub: forward [a] is passed, must be not_implemented",
                "double/stub: earns 0.1 of 3.0 points, must earn none",
            ],
            id="a stub that passes",
        ),
    ],
)
def test_bad_solution_and_stub_are_told(examined: Examined, want: list[str]) -> None:
    """Each test that ended otherwise, and the points."""
    assert told(examined) == want


def test_scenario_may_have_cases_that_need_another_machine() -> None:
    """Some or all of them; but what ran must be right."""
    some = graded("solution", ("forward", "a", UNCHECKED), ("forward", "b", PASSED))
    none = graded("solution", ("forward", "a", UNCHECKED), points=(0.0, 0.0))
    bad = graded("solution", ("forward", "a", UNCHECKED), ("forward", "b", WRONG))

    assert told(some, allows_unchecked=True) == told(none, allows_unchecked=True) == []
    assert some.is_checkable
    assert not none.is_checkable
    assert len(told(bad, allows_unchecked=True)) == 1


MASK = Expectation(BOUNDS, "memory", ("b", "c"))


def test_caught_as_named() -> None:
    """By the named group in the named cases, whatever forward says; cases not given may be any."""
    both = graded(
        "wrong",
        ("forward", "a", WRONG),
        ("memory", "a", PASSED),
        ("memory", "b", BOUNDS),
        ("memory", "c", BOUNDS),
        expected=MASK,
    )

    assert told(both) == []
    assert (
        told(replace(both, specimen=replace(both.specimen, expected=replace(MASK, cases=None))))
        == []
    )


@pytest.mark.parametrize(
    ("verdicts", "want"),
    [
        pytest.param(
            {"b": PASSED, "c": PASSED},
            ["double/wrong/wrong: passes memory, must be out_of_bounds there"],
            id="not caught",
        ),
        pytest.param(
            {"b": BOUNDS, "c": Verdict.RACE},
            ["double/wrong/wrong: memory [c] is race, must be out_of_bounds"],
            id="caught as something else",
        ),
        pytest.param(
            {"b": BOUNDS, "c": PASSED},
            ["double/wrong/wrong: memory catches it in b, must in b, c"],
            id="in fewer cases",
        ),
        pytest.param(
            {"a": BOUNDS, "b": BOUNDS, "c": BOUNDS},
            ["double/wrong/wrong: memory catches it in a, b, c, must in b, c"],
            id="in more cases",
        ),
        pytest.param(
            {"b": BOUNDS, "c": UNCHECKED},
            ["double/wrong/wrong: memory [c] is not_checkable, must be out_of_bounds"],
            id="not checkable in a kernel problem",
        ),
    ],
)
def test_not_caught_as_named(verdicts: dict[str, Verdict], want: list[str]) -> None:
    """Any other verdict in the named group, and any other set of cases."""
    its = [("memory", case, verdict) for case, verdict in verdicts.items()]
    examined = graded("wrong", *cast("list[tuple[Group, str, Verdict]]", its), expected=MASK)

    assert told(examined) == want


def test_unchecked_case_of_a_scenario_need_not_catch() -> None:
    """The others must."""
    expected = Expectation(WRONG, "forward", ("a", "gpu"))
    caught = graded(
        "wrong", ("forward", "a", WRONG), ("forward", "gpu", UNCHECKED), expected=expected
    )
    missed = graded(
        "wrong", ("forward", "a", PASSED), ("forward", "gpu", UNCHECKED), expected=expected
    )

    assert told(caught, allows_unchecked=True) == []
    assert told(missed, allows_unchecked=True) == [
        "double/wrong/wrong: passes forward, must be wrong_value there"
    ]


def test_what_must_catch_it_may_need_another_machine() -> None:
    """Then nothing is known of the file, not even if other cases pass."""
    examined = graded(
        "wrong",
        ("forward", "a", PASSED),
        ("forward", "gpu", UNCHECKED),
        expected=Expectation(WRONG, "forward", ("gpu",)),
    )

    assert told(examined, allows_unchecked=True) == []


def problem(kind: str, *, differentiable: bool) -> Problem:
    """What ``lacking`` looks at."""
    return cast("Problem", SimpleNamespace(name="double", kind=kind, differentiable=differentiable))


BY_MEMORY = graded("wrong", ("forward", "a", PASSED), ("memory", "b", BOUNDS))
BY_BACKWARD = graded("wrong", ("forward", "a", PASSED), ("backward", "a", WRONG))
BY_FORWARD = graded("wrong", ("forward", "a", WRONG), ("forward", "b", WRONG))
WHERE = "reference/double/wrong/"


@pytest.mark.parametrize(
    ("kind", "differentiable", "wrong", "want"),
    [
        ("kernel", True, [BY_MEMORY, BY_BACKWARD, *4 * [BY_FORWARD]], []),
        ("kernel", False, [BY_MEMORY, *5 * [BY_FORWARD]], []),
        ("scenario", False, 3 * [BY_FORWARD], []),
        ("scenario", False, 2 * [BY_FORWARD], [f"{WHERE} has 2 files, needs 3 or more"]),
        (
            "kernel",
            True,
            [BY_MEMORY, *4 * [BY_FORWARD]],
            [
                f"{WHERE} has 5 files, needs 6 or more",
                f"{WHERE}: no file is caught by backward and passes forward",
            ],
        ),
        (
            "kernel",
            False,
            6 * [BY_FORWARD],
            [
                f"{WHERE}: no file is caught by memory and passes forward",
                f"{WHERE}: no file is caught by a single case",
            ],
        ),
    ],
)
def test_kinds_of_mistakes(
    kind: str, differentiable: bool, wrong: list[Examined], want: list[str]
) -> None:
    """Enough of them; some seen by memory, some by backward, some by one case alone."""
    solution = graded("solution", ("forward", "a", PASSED))

    assert list(lacking(problem(kind, differentiable=differentiable), [solution, *wrong])) == want


def test_specimens_of_a_problem() -> None:
    """A wrong file is run in forward and the group that it names; the others in all."""
    softmax = load_problem("softmax")

    found = {one.name: one for one in specimens(softmax, Path("reference"), Path("assignment"))}

    assert len(found) >= 8
    assert found["softmax/solution"].groups == ("forward", "backward", "gradcheck", "memory")
    assert found["softmax/wrong/load_without_mask"].groups == ("forward", "memory")
    assert found["softmax/wrong/no_maximum"].groups == ("forward",)


TOP = 'EXPECTED_VERDICT = "wrong_value"\nEXPECTED_GROUP = "forward"\nEXPECTED_CASES = None\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must say at its top: EXPECTED_VERDICT, EXPECTED_GROUP, EXPECTED_CASES"),
        (TOP.replace("wrong_value", "bad_value"), "'bad_value' is no verdict"),
        (TOP.replace('"forward"', '"fwd"'), "EXPECTED_GROUP is 'fwd'"),
        (TOP.replace("None", '("M1",)'), "EXPECTED_CASES names M1"),
        (TOP.replace("None", "cases()"), "cannot be read"),
        ("def", "cannot be read"),
    ],
)
def test_wrong_file_must_say_what_catches_it(tmp_path: Path, text: str, complaint: str) -> None:
    """An error that names the file, rather than a mistake that nothing is asked to catch."""
    path = tmp_path / "softmax" / "wrong" / "mistake.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)

    with pytest.raises(ValueError, match=r"softmax/wrong/mistake\.py") as raised:
        read_expectation(path, load_problem("softmax"))

    assert complaint in str(raised.value)


def add_wrong_files(course: Course, **texts: str) -> None:
    """Six mistakes by default; texts replaces or adds some."""
    solution = SOLUTION.format(name="double")
    made = {f"triples_{i}": solution.replace("2 * tl", f"{3 + i} * tl") for i in range(5)}
    masked = TOP.replace("wrong_value", "out_of_bounds").replace("forward", "memory")
    unmasked = solution.replace("x_ptr + offsets, mask=mask", "x_ptr + offsets")
    folder = course.root / "reference" / "double" / "wrong"
    folder.mkdir()
    for name, text in {
        **{k: TOP + v for k, v in made.items()},
        "no_mask": masked + unmasked,
        **texts,
    }.items():
        (folder / f"{name}.py").write_text(text)


STUB_TEXT = 'def double(x):\n    raise NotImplementedError("TODO")\n'


@pytest.mark.slow
def test_sound_course(new_course: Callable[..., Course]) -> None:
    """Exit code 0, a line for each file, and the points."""
    course = new_course("double")
    course.submit({"double.py": STUB_TEXT})
    add_wrong_files(course)

    ran = course.run("verify", "--jobs", "2")

    assert ran.code == 0, ran.said
    assert "sound: 8 files are as they must be" in ran.said
    assert "double/wrong/no_mask: as it must be" in ran.said
    assert "7.50/7.50" in ran.said


@pytest.mark.slow
def test_unsound_course(new_course: Callable[..., Course]) -> None:
    """Exit code 1; the stub that passes and the mistake that nothing catches are named."""
    course = new_course("double")
    course.submit({"double.py": SOLUTION.format(name="double")})
    add_wrong_files(course, right=TOP + SOLUTION.format(name="double"))

    ran = course.run("verify", "double")

    assert ran.code == 1
    assert "double/stub: forward [N5-float32] is passed, must be not_implemented" in ran.said
    assert "double/wrong/right: passes forward, must be wrong_value there" in ran.said
    assert "double/solution: as it must be" in ran.said


def processes_of(course: Course) -> list[str]:
    """Running processes that name the course's tree, where /proc tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(path.read_bytes().decode(errors="replace"))
    return [command for command in found if str(course.root) in command]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_ended_verification_leaves_no_process(
    new_course: Callable[..., Course], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """While a file runs: told in a line, soon, and nothing is left, folders neither if it could."""
    course = new_course("double")
    endless = SOLUTION.format(name="double").replace("y = torch.empty_like(x)", "while True: pass")
    course.submit({"double.py": endless})
    add_wrong_files(course)
    verify = subprocess.Popen(
        course.command("verify", "--jobs", "1"),
        cwd=course.root,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert verify.stderr is not None
    assert "double/solution" in verify.stderr.readline()

    time.sleep(1)  # the stub is running by now
    assert processes_of(course)
    # a terminal's Ctrl-C reaches all processes, another signal the one it is sent to
    (os.killpg if number is signal.SIGINT else os.kill)(verify.pid, number)
    # of a killed parent the processes hold standard error until they end, too
    _, said = verify.communicate(timeout=60)

    assert verify.returncode == code
    assert ("interrupted" in said) == (code > 0)
    assert "Traceback" not in said
    deadline_s = time.monotonic() + 20
    while (left := processes_of(course)) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    assert not left
    if code > 0:
        assert not list(tmp_path.glob("kernelgrade-*"))


def test_a_missing_stub_is_named(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(ValueError, match=r"assignment/softmax\.py is missing: run `make stubs`"):
        specimens(load_problem("softmax"), Path("reference"), tmp_path / "assignment")
