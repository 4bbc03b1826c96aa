"""grader.runner: what stands around a grading does not change it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.grader.course import Course


@pytest.mark.slow
def test_warnings_and_the_users_own_pytest_options_cost_nothing(
    new_course: Callable[..., Course], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oracle that warns still judges, and PYTEST_ADDOPTS=-x does not end a grading early."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    course = new_course("double", "wrong")
    path = course.root / "reference" / "double" / "problem.py"
    warning = "__import__('warnings').warn('soon gone', DeprecationWarning) or 2 * x.double()"
    path.write_text(path.read_text().replace("2 * x.double()", warning))
    solution = (course.root / "reference" / "double" / "solution.py").read_text()
    course.submit({"double.py": solution, "wrong.py": "def wrong(x):\n    return 3 * x\n"})

    graded = course.run("grade")

    assert graded.code == 0
    assert graded.score("double") == 7.5
    assert graded.score("wrong") == 0
