"""grader.settings: the course's GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

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
