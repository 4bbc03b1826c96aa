"""grader.settings: the course's GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import discover
from grader.grading import Request, UsageError, opened
from grader.settings import course_arch


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param('[tool.grader]\narch = "sm_80"\n', 80, id="named"),
        pytest.param('[tool.grader]\narch = "sm_120"\n', 120, id="three-digits"),
        pytest.param("[tool.other]\n", 90, id="not-named"),
    ],
)
def test_arch_of_the_course(tmp_path: Path, text: str, want: int) -> None:
    """Compute capability times ten; H100 and H200 where the course says nothing."""
    (tmp_path / "pyproject.toml").write_text(text)

    assert course_arch(tmp_path / "pyproject.toml") == want
    assert course_arch(tmp_path / "missing.toml") == 90


@pytest.mark.parametrize("arch", ['"H100"', '"sm_90a"', "90", '"sm_75"'])
def test_an_arch_that_is_none_is_refused(tmp_path: Path, arch: str) -> None:
    """With the spelling that is wanted, and what can be compiled for."""
    (tmp_path / "pyproject.toml").write_text(f"[tool.grader]\narch = {arch}\n")

    with pytest.raises(ValueError, match="want one of 'sm_80', 'sm_86'"):
        course_arch(tmp_path / "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "[tool]\ngrader = 3\n", r"tool.grader = 3 .* write \[tool.grader\]", id="number"
        ),
        pytest.param("tool = 'x'\n", r"tool = 'x' is no section: write \[tool\]", id="text"),
        pytest.param("[tool.grader\n", r"it is no TOML: .* \(at line 1", id="syntax"),
        pytest.param(
            "[tool.grader]\narch = sm_90\n", r"it is no TOML: .* \(at line 2", id="unquoted"
        ),
        pytest.param("\xe4 = 1\n".encode("latin-1"), "save it as UTF-8", id="encoding"),
    ],
)
def test_a_file_that_cannot_be_understood(tmp_path: Path, text: str | bytes, words: str) -> None:
    """Named, with what to write; never passed over for the default."""
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "pyproject.toml").write_bytes(content)

    with pytest.raises(ValueError, match=f"^pyproject.toml: .*{words}"):
        course_arch(tmp_path / "pyproject.toml")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is there, so its settings are meant."""
    (tmp_path / "pyproject.toml").mkdir()

    with pytest.raises(ValueError, match=r"^pyproject.toml: it cannot be read: Is a directory"):
        course_arch(tmp_path / "pyproject.toml")


def test_a_broken_file_ends_the_grading_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As wrong usage, not as a fault of the grader."""
    (tmp_path / "pyproject.toml").write_text("[tool]\ngrader = 3\n")
    monkeypatch.setattr(discover, "ROOT", tmp_path)

    with pytest.raises(UsageError, match=r"pyproject\.toml"), opened(Request(Path("reference"))):
        pass
