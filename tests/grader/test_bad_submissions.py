"""What bad code gets: its verdict with a cause, while the other problems keep their points."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.scorecard import Status
from tests.grader.course import SOLUTION, Course, Graded

HEAD = "import os, sys, time\nimport torch\n"
CALL = HEAD + "def {name}(x):\n    "

# problem to: file, verdicts of its two forward cases, what the cause says
BAD = {
    "syntax_error": ("def f(:\n", {"import_error"}, "SyntaxError"),
    "raises_at_import": ("import no_such_module\n", {"import_error"}, "no_such_module"),
    "no_entry": ("x = 1\n", {"import_error"}, "defines no function no_entry"),
    "os_exit_at_import": (HEAD + "os._exit(0)\n", {"import_error"}, "ended the process: exit 0"),
    "sys_exit_at_import": (HEAD + "sys.exit(0)\n", {"import_error"}, "SystemExit: 0"),
    "os_exit": (CALL + "os._exit(0)\n", {"crashed"}, "ended the process: exit 0"),
    "sys_exit": (CALL + "sys.exit(0)\n", {"crashed"}, "tried to end the process: SystemExit: 0"),
    "segfault": (CALL + "os.kill(os.getpid(), 11)\n", {"crashed"}, "signal 11 (SIGSEGV)"),
    "raises": (CALL + "return x.nothing\n", {"crashed"}, "has no attribute 'nothing'"),
    "endless": (CALL + "while True: pass\n", {"timeout"}, "it was at endless.py:4 in endless"),
    "sleeps": (CALL + "time.sleep(1000)\n", {"timeout"}, "running took over 5 s"),
    "returns_list": (CALL + "return [x]\n", {"wrong_type"}, "y is a list, want a tensor"),
    "returns_none": (CALL + "x\n", {"wrong_type"}, "y is None, want a tensor"),
    "returns_tuple": (CALL + "return x, x\n", {"wrong_type"}, "a tuple of 2, want a tensor"),
    "returns_parameter": (
        CALL + "return torch.nn.Parameter(2 * x)\n",
        {"wrong_type"},
        "y is a Parameter",
    ),
    "ten_axes": (
        CALL + "return (2 * x)[(None,) * 9]\n",
        {"wrong_type"},
        "y is a tensor of shape (1, 1, 1, 1, 1, 1, 1, 1, 1, 5)",
    ),
    "wrong_shape": (CALL + "return (2 * x)[None]\n", {"wrong_shape"}, "shape (1, 5), want (5,)"),
    "wrong_dtype": (CALL + "return 2 * x.double()\n", {"wrong_dtype"}, "float64, want float32"),
    "nan": (CALL + "return x * float('nan')\n", {"non_finite"}, "5 of 5 values of y are wrong"),
    "wrong_value": (CALL + "return 3 * x\n", {"wrong_value"}, "1.5 times the wanted"),
    "changes_input": (CALL + "return x.mul_(2)\n", {"modified_input"}, "changed its input x"),
    "too_much_memory": (
        CALL + "return torch.empty(1 << 38)\n",
        {"out_of_memory"},
        "can't allocate memory",
    ),
    "prints": (
        CALL + "print('x is', tuple(x.shape)); return 3 * x\n",
        {"wrong_value"},
        "x is (5,)",
    ),
    "prints_and_floods": (
        CALL + "print('y' * 100_000_000); return 3 * x\n",
        {"wrong_value"},
        "[cut: the first 2000 of 100000001 bytes]",
    ),
    "token_kernel": (
        SOLUTION.replace("    y = torch", "    z = torch")
        .replace("(x, y, x.numel()", "(x, z, 1")
        .replace("return y", "return 2 * x"),
        {"passed"},
        "kernels wrote 1 elements, but the output has 7",
    ),
    "integers": (CALL + "return (2 * x).to(torch.uint8)\n", {"wrong_dtype"}, "dtype uint8, want"),
    "floods": (CALL + "print('x' * 100_000_000); return 2 * x\n", {"passed"}, ""),
    "not_written": (
        CALL + "raise NotImplementedError('TODO: later')\n",
        {"not_implemented"},
        "later",
    ),
    "unreadable_error": (
        HEAD
        + "class E(Exception):\n    def __str__(self): raise RuntimeError\n"
        + "def {name}(x):\n    raise E\n",
        {"crashed"},
        "its message raised RuntimeError",
    ),
    "indescribable": (
        HEAD
        + "class E(Exception):\n    def __str__(self): raise SystemExit\n"
        + "def {name}(x):\n    raise E\n",
        {"crashed"},
        "an exception that cannot be described",
    ),
    "recursion": (CALL + "return {name}(x)\n", {"crashed"}, "RecursionError"),
    "missing": (None, {"import_error"}, "has no file missing.py"),
}


@pytest.fixture(scope="module")
def graded(new_course: Callable[..., Course]) -> Graded:
    """One grading of all bad files beside a good one."""
    course = new_course("good", *BAD)
    files = {f"{name}.py": text.replace("{name}", name) for name, (text, *_) in BAD.items() if text}
    good = (course.root / "reference" / "good" / "solution.py").read_text()
    course.submit(files | {"good.py": good})
    return course.run("grade")


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_bad_code_gets_its_verdict(graded: Graded, name: str) -> None:
    """Every end of student code is one verdict, and the cause says what happened."""
    _, verdicts, words = BAD[name]

    assert graded.verdicts(name) == verdicts
    assert words in graded.causes(name)
    if verdicts != {"passed"}:
        assert graded.score(name) == 0


@pytest.mark.slow
def test_the_others_keep_their_points(graded: Graded) -> None:
    """The broken problems cost the good one nothing, and the card is complete."""
    assert graded.code == 0
    assert graded.card is not None
    assert graded.card.status is Status.GRADED
    assert graded.card.expected_tests == graded.card.reported_tests == 3 * (len(BAD) + 1)
    assert graded.score("good") == 7.5


@pytest.mark.slow
def test_isolation_is_told_though_every_process_died(new_course: Callable[..., Course]) -> None:
    """What was in force is probed before the submission runs."""
    course = new_course("os_exit")
    course.submit({"os_exit.py": BAD["os_exit"][0].replace("{name}", "os_exit")})  # type: ignore[union-attr]  # it has a text

    card = course.run("grade").card

    assert card is not None
    assert "own process" in card.isolation.in_force


@pytest.mark.slow
def test_traceback_is_the_students_own(graded: Graded) -> None:
    """A crash shows the student's lines and none of the grader's."""
    cause = graded.causes("raises")

    assert 'File "raises.py", line 4, in raises' in cause
    assert "grader" not in cause
