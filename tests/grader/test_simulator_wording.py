"""What findings say: the line they are about, how many there were, and what to do."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
import torch

from grader.simulator import Finding, load_module, pretend_gpu, recording

KERNELS = """\
import triton
import triton.language as tl


@triton.jit
def add_atomically(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.atomic_add(out_ptr + i % 4, x, mask=i < n)


@triton.jit
def rows_too_long(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, x{VALUE}, mask=i < n)


@triton.jit
def load_add_store(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(x, axis=0))


@triton.jit
def no_mask(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=i < n)
"""
N = 32


def found(folder: Path, kernel: str, value: str = "", n: int = N) -> list[Finding]:
    """What a launch of four programs on ascending numbers shows."""
    module = loaded(folder, value)
    with recording() as log:
        getattr(module, kernel)[(4,)](torch.arange(n).float(), torch.zeros(n), n)
    return log.findings


def loaded(folder: Path, value: str = "") -> types.ModuleType:
    """The kernels above."""
    path = folder / "wording.py"
    path.write_text(KERNELS.replace("{VALUE}", value))
    return load_module(path, name="kernels_of_test_simulator_wording")


def test_a_note_on_float_atomics_names_their_line(tmp_path: Path) -> None:
    """Not the kernel's first one."""
    (note,) = found(tmp_path, "add_atomically")

    text = "tl.atomic_add(out_ptr + i % 4, x, mask=i < n)"
    line = next(k for k, each in enumerate(KERNELS.splitlines(), 1) if text in each)
    assert (note.kind, note.line, note.source_line) == ("note", line, text)


def test_writes_of_equal_values_are_no_news_beside_a_race(tmp_path: Path) -> None:
    """Rows of 16 in steps of 8: with the program id added values differ, but for a zero."""
    (race,) = found(tmp_path, "rows_too_long", " * tl.program_id(0) * (i % 16 > 7)")
    (note,) = found(tmp_path, "rows_too_long")

    assert race.kind == "race"
    assert "which is harmless" not in str(race)
    assert note.kind == "note"
    assert "both write the same value" in note.text


def test_advice_on_a_race_of_stores_looks_at_offsets_first(tmp_path: Path) -> None:
    """Of a load, an addition and a store no offset is wrong."""
    (overlap,) = found(tmp_path, "rows_too_long", " * tl.program_id(0)")
    sums = found(tmp_path, "load_add_store")

    assert "check the offsets" in overlap.advice
    assert "this tensor's own stride" in overlap.advice
    assert {finding.kind for finding in sums} == {"race"}
    assert any("offsets" not in finding.advice for finding in sums)
    assert all("partial results" in finding.advice for finding in [overlap, *sums])


@pytest.mark.parametrize(("n", "times"), [(31, ""), (30, " (2 elements)")])
def test_elements_are_counted_from_two_on(tmp_path: Path, n: int, times: str) -> None:
    """Four programs of 8 lanes reach 32."""
    (outside,) = found(tmp_path, "no_mask", n=n)

    assert outside.counted == f"{outside.text}{times}"


def test_what_has_no_elements_is_counted_in_times(tmp_path: Path) -> None:
    """A note for each of three launches is one note."""
    module = loaded(tmp_path)
    with recording() as log:
        for _ in range(3):
            module.add_atomically[(4,)](torch.ones(N), torch.zeros(N), N)

    (note,) = log.findings
    assert note.counted == f"{note.text} (3 times)"


def test_an_output_that_was_not_filled_is_counted_once(tmp_path: Path) -> None:
    """Its text begins with the number, and its place is a kernel's, not a line's."""
    with recording() as log:
        out = torch.empty(N)
        loaded(tmp_path).no_mask[(3,)](torch.ones(N), out, N)
        log.check_written(out, "out")
        log.check_written(torch.empty(2), "other")

    missing, untouched = log.findings
    assert str(missing).count("8 of 32 elements") == 1
    assert "(8 elements)" not in str(missing)
    assert "never_written: the last kernel to write there was no_mask, " in str(missing)
    assert "never_written: no kernel wrote there\n" in str(untouched)


def test_a_tensor_that_is_not_on_the_gpu_is_refused_with_what_to_write(tmp_path: Path) -> None:
    """There may be no other tensor whose device could be taken."""
    with pretend_gpu():
        x = torch.zeros(N)
        with pytest.raises(ValueError, match="x_ptr") as refused:
            loaded(tmp_path).no_mask[(4,)](x, x.cuda(), N)
        loaded(tmp_path).no_mask[(4,)](x.cuda(), torch.empty(N, device="cuda"), N)

    for words in ('device="cuda"', "device=x.device", "x.cuda()"):
        assert words in str(refused.value)
