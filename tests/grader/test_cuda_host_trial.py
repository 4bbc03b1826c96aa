"""One case in the student's process: what counts as a refusal of x, and what a lost GPU does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grader import simulator
from grader.cuda_host import trial
from grader.cuda_host.drawing import DEFAULTS
from grader.cuda_host.inline import StoppedError, Watch


class Around(trial._Host):
    """Surroundings that find a launch refused, or the GPU lost."""

    def __init__(self, pending: str = "", *, is_lost: bool = False) -> None:
        self.text, self.is_lost = pending, is_lost

    def pending(self) -> str:
        """What is pending, where the GPU still answers."""
        if self.is_lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.text


def called(
    function: Callable[[torch.Tensor], Any], around: trial._Host | None = None, **arguments: Any
) -> dict[str, Any]:
    """The log of a call on three numbers."""
    given = {**DEFAULTS, "seed": 1, **arguments}
    x = torch.tensor([1.0, 9, 2, 9, 3, 9])[::2]
    with simulator.pretend_gpu():
        return trial._called(Watch(on_host=True), function, x, given, around or trial._Host())


def picky(error: Exception) -> Callable[[torch.Tensor], torch.Tensor]:
    """Raises on what has gaps, and on nothing else."""

    def function(x: torch.Tensor) -> torch.Tensor:
        if not x.is_contiguous():
            raise error
        return 2 * x

    return function


@pytest.mark.parametrize("may_refuse", [False, True])
@pytest.mark.parametrize(
    ("content", "said", "advice"),
    [
        (None, "the submission has no file cuda_gelu.cu", "links, and files over 1 MiB"),
        (b"__global__ void k() {\n  // caf\xe9\n}\n", "line 2 of the .cu file", "as UTF-8"),
    ],
)
def test_a_cu_file_that_cannot_be_read_is_told(
    tmp_path: Path, content: bytes | None, said: str, advice: str, may_refuse: bool
) -> None:
    """Not there, which is so of a link too, or no text: what to do, and no traceback."""
    path = tmp_path / "cuda_gelu.cu"
    if content is not None:
        path.write_bytes(content)

    log = called(lambda _: path.read_text(encoding="utf-8"), may_refuse=may_refuse)

    assert log["refusal"]["kind"] == "compile_error"
    assert said in log["refusal"]["lines"][0]
    assert advice in log["refusal"]["lines"][1]


def test_another_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A file of the submission's own invention is no .cu file."""
    path = tmp_path / "notes.txt"

    with pytest.raises(FileNotFoundError):
        called(lambda _: path.read_text())
    path.write_bytes(b"caf\xe9")
    with pytest.raises(UnicodeDecodeError):
        called(lambda _: path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "error", [RuntimeError("x has gaps"), ValueError("x has gaps"), AssertionError()]
)
def test_a_refusal_of_x_is_an_answer(error: Exception) -> None:
    """Where x may be refused, by TORCH_CHECK or in Python; elsewhere it is an error."""
    log = called(picky(error), may_refuse=True)

    assert log["raised"].startswith(type(error).__name__)
    assert log["returned"] is None
    with pytest.raises(type(error)):
        called(picky(error))


@pytest.mark.parametrize(
    "error",
    [TypeError("bug"), KeyError("bug"), RuntimeError("CUDA error: invalid argument")],
)
def test_a_bug_is_no_refusal(error: Exception) -> None:
    """Neither an error of Python's own nor one of the GPU says no to x."""
    with pytest.raises(type(error)):
        called(picky(error), may_refuse=True)


def test_who_refuses_everything_has_not_looked_at_x() -> None:
    """A tensor without gaps comes first, and must be taken."""

    def function(x: torch.Tensor) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        called(function, may_refuse=True)


def test_a_lost_gpu_is_no_refusal() -> None:
    """The call may have raised because of it."""
    with pytest.raises(RuntimeError, match="illegal memory access"):
        called(picky(RuntimeError("x has gaps")), Around(is_lost=True), may_refuse=True)


def test_what_is_pending_is_told() -> None:
    """Beside the values."""
    log = called(lambda x: 2 * x, Around("invalid argument"))

    assert log["pending"] == "invalid argument"
    assert log["returned"]["shape"] == [3]
    assert not log["is_changed"]


def test_a_change_of_x_is_told() -> None:
    """In place."""
    assert called(lambda x: x.mul_(2))["is_changed"]


def test_what_stopped_a_call_is_told_not_raised() -> None:
    """A stub, say: the judge makes the verdict."""
    watch = Watch(on_host=True)
    module = watch.load_inline(
        name="f", cpp_sources="", cuda_sources='#error "TODO: implement k"\n', functions=["f"]
    )

    with simulator.pretend_gpu():
        given = {**DEFAULTS, "seed": 1, "may_refuse": True}
        log = trial._called(watch, module.f, torch.ones(3), given, trial._Host())

    assert log["todo"] == "TODO: implement k"
    with pytest.raises(StoppedError):
        module.f(1)
