"""grader.runner: what stands around a grading does not change it."""

from __future__ import annotations

import errno
import io
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.runner import PROBE_BYTES, _n_tests_in, _write_atomically
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


def no_room(*_: object) -> None:
    """What a write into a full disk ends with; it names no file."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_tests_of_a_report_are_counted(tmp_path: Path) -> None:
    """Where there is room, no report and half of one are a fault like any other."""
    whole, half = tmp_path / "report.json", tmp_path / "half.json"
    text = json.dumps({"tests": [{"nodeid": "a"}, {"nodeid": "b"}]})
    whole.write_text(text)
    half.write_text(text[:-5])

    assert _n_tests_in(whole) == 2
    assert _n_tests_in(half) == _n_tests_in(tmp_path / "none.json") == -1


def test_half_a_report_on_a_full_disk_is_no_fault_of_the_grader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which folder is full; a whole report asks for no more room."""
    whole, half = tmp_path / "report.json", tmp_path / "half.json"
    whole.write_text('{"tests": [{}]}')
    half.write_text('{"tests": [')
    monkeypatch.setattr(Path, "write_bytes", no_room)

    assert _n_tests_in(whole) == 1
    with pytest.raises(OSError, match="no space left in TMPDIR") as raised:
        _n_tests_in(half)
    assert f"({tempfile.gettempdir()}): No space left on device" in str(raised.value)
    # what pytest's plugin writes at once
    assert PROBE_BYTES > io.DEFAULT_BUFFER_SIZE


def test_a_full_disk_leaves_the_last_card_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may tell only at fsync that it is full."""
    path = tmp_path / "scorecard.json"
    _write_atomically(path, "first")
    monkeypatch.setattr(os, "fsync", no_room)

    with pytest.raises(OSError, match="No space left on device; make room there") as raised:
        _write_atomically(path, "second")

    assert f"--out {tmp_path}: " in str(raised.value)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]
