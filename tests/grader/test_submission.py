"""grader.submission: regular files are taken, everything else is listed or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.submission import MAX_FILE_BYTES, SubmissionError, take


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """The grader's own folder."""
    folder = tmp_path / "taken"
    folder.mkdir()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A student's folder."""
    folder = tmp_path / "handed-in"
    folder.mkdir()
    (folder / "gelu.py").write_text("a = 1\n")
    return folder


def test_files_are_copied_and_named(source: Path, into: Path) -> None:
    """Python and CUDA files are taken; the rest is listed as ignored."""
    for name in ("helper.py", "gelu.cu", ".hidden.py", "notes.txt"):
        (source / name).write_text("x = 1\n")

    taken = take(source, into, ["gelu"])

    assert taken.card.files == ("gelu.cu", "gelu.py", "helper.py")
    assert taken.card.ignored == (".hidden.py", "notes.txt")
    assert taken.file("gelu").read_text() == "a = 1\n"
    assert taken.card.path == "handed-in"


def test_links_folders_pipes_and_giants_are_ignored(source: Path, into: Path) -> None:
    """Nothing is followed, entered or waited for."""
    (source / "link.py").symlink_to("/etc/passwd")
    (source / "folder.py").mkdir()
    os.mkfifo(source / "pipe.py")
    (source / "giant.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))

    taken = take(source, into, ["gelu"])

    assert taken.card.files == ("gelu.py",)
    assert taken.card.ignored == ("folder.py", "giant.py", "link.py", "pipe.py")


def test_names_that_are_not_utf8_fit_a_card(source: Path, into: Path) -> None:
    """Archives from elsewhere bring names in other encodings; they cost nobody a grade."""
    for name in (b"caf\xe9.py", b"caf\xe9.txt"):
        Path(os.fsdecode(os.fsencode(source) + b"/" + name)).write_text("x = 1\n")

    card = take(source, into, ["gelu"]).card

    assert (card.files, card.ignored) == (("caf\\xe9.py", "gelu.py"), ("caf\\xe9.txt",))
    assert "gelu.py" in card.model_dump_json()


def test_hash_depends_on_names_and_contents(source: Path, tmp_path: Path) -> None:
    """The same files give the same hash, any change another."""

    def sha256(index: int) -> str:
        folder = tmp_path / str(index)
        folder.mkdir()
        return take(source, folder, ["gelu"]).card.sha256

    first, again = sha256(0), sha256(1)
    (source / "gelu.py").write_text("a = 2\n")

    assert first == again
    assert sha256(2) != first


def test_reference_layout_gives_one_file_per_problem(source: Path, into: Path) -> None:
    """In reference/ a problem's file is <problem>/solution.py."""
    for name in ("gelu", "softmax"):
        (source / name).mkdir()
        (source / name / "problem.py").touch()
        (source / name / "solution.py").write_text(f"# {name}\n")

    taken = take(source, into, ["gelu", "softmax"])

    assert taken.card.files == ("gelu.py", "softmax.py")
    assert taken.file("softmax").read_text() == "# softmax\n"


def test_one_file_is_the_only_problem(source: Path, into: Path) -> None:
    """A single file may have any name, but which problem it solves must be said."""
    file = source / "gelu.py"

    assert take(file, into, ["softmax"]).card.files == ("softmax.py",)
    with pytest.raises(SubmissionError, match="--problem"):
        take(file, into, ["softmax", "gelu"])


def test_one_file_that_cannot_be_taken_is_refused(source: Path, into: Path) -> None:
    """What was named and cannot be graded is a usage error, not a zero."""
    (source / "notes.txt").write_text("x = 1\n")
    (source / "link.py").symlink_to(source / "gelu.py")
    (source / "giant.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))

    for name in ("notes.txt", "link.py", "giant.py"):
        with pytest.raises(SubmissionError, match="no Python file"):
            take(source / name, into, ["gelu"])


def test_missing_folder_says_what_to_do(tmp_path: Path, into: Path) -> None:
    """A path with nothing there is a usage error."""
    with pytest.raises(SubmissionError, match="there is no folder"):
        take(tmp_path / "nowhere", into, ["gelu"])
