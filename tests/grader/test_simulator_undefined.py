"""Masked lanes without `other`: noted where they reach a result, and only there."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
import torch

from grader.simulator import Finding, load_module, recording

KERNELS = '''
import torch
import triton
import triton.language as tl


@triton.jit
def sum_of_row(x_ptr, out_ptr, n_rows, n_cols):
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row, tl.sum(x))


@triton.jit
def max_of_row(x_ptr, out_ptr, n_rows, n_cols):
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row, tl.max(x, axis=0))


@triton.jit
def min_of_row(x_ptr, out_ptr, n_rows, n_cols):
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row, tl.min(x, axis=0))


@triton.jit
def squared(x):
    return x * x


@triton.jit
def sum_of_squares_in_a_loop(x_ptr, out_ptr, n_rows, n_cols):
    """Through a helper, a loop and a variable."""
    row = tl.program_id(0)
    total = tl.zeros((4,), tl.float32)
    for start in range(0, n_cols, 4):
        cols = start + tl.arange(0, 4)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
        total += squared(x)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def product(x_ptr, out_ptr, n_rows, n_cols):
    """x @ x.T of at most 16 columns: lanes along K count, lanes along the rows do not."""
    i = tl.arange(0, 16)
    inside = (i[:, None] < n_rows) & (i[None, :] < n_cols)
    x = tl.load(x_ptr + i[:, None] * n_cols + i[None, :], mask=inside)
    y = tl.dot(x, x.trans(), input_precision="ieee")
    square = (i[:, None] < n_rows) & (i[None, :] < n_rows)
    tl.store(out_ptr + i[:, None] * n_rows + i[None, :], y, mask=square)


@triton.jit
def zero_times_undefined(x_ptr, out_ptr, n_rows, n_cols):
    """One factor is padded with zeros, the other with nothing: 0 times NaN is NaN."""
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    w = tl.load(x_ptr + cols, mask=cols < n_cols)
    tl.store(out_ptr + row, tl.sum(x * w))


@triton.jit
def prefix(x_ptr, out_ptr, n_rows, n_cols):
    """The scan runs from the right, so that the lanes at the end come first."""
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * n_cols + cols, tl.cumsum(x, reverse=True), mask=cols < n_cols)


@triton.jit
def block_pointer_sum(x_ptr, out_ptr, n_rows, n_cols, PADDING: tl.constexpr = ""):
    block = tl.make_block_ptr(x_ptr, (n_rows, n_cols), (n_cols, 1), (0, 0), (16, 16), (1, 0))
    x = tl.load(block, boundary_check=(0, 1), padding_option=PADDING)
    rows = tl.arange(0, 16)
    tl.store(out_ptr + rows, tl.sum(x, axis=1), mask=rows < n_rows)


@triton.jit
def store_without_mask(x_ptr, out_ptr, n_rows, n_cols):
    """Not reduced, but written."""
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * 16 + cols, x)


@triton.jit
def sum_with_other(x_ptr, out_ptr, n_rows, n_cols):
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x))


@triton.jit
def sum_of_chosen(x_ptr, out_ptr, n_rows, n_cols):
    """tl.where clears the lanes first."""
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row, tl.sum(tl.where(cols < n_cols, x * x, 0.0)))


@triton.jit
def elementwise(x_ptr, out_ptr, n_rows, n_cols):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    mask = i < n_rows * n_cols
    tl.store(out_ptr + i, tl.exp(tl.load(x_ptr + i, mask=mask)), mask=mask)


@triton.jit
def rows_of_a_tile(x_ptr, out_ptr, n_rows, n_cols):
    """Whole rows are left out, and so are their sums; all of a row that counts is there."""
    rows, cols = tl.arange(0, 16), tl.arange(0, 8)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=rows[:, None] < n_rows)
    tl.store(out_ptr + rows, tl.sum(x, axis=1), mask=rows < n_rows)


@triton.jit
def number_of_turns(x_ptr, out_ptr, n_rows, n_cols):
    """What the last program does not load bounds a loop; it writes nothing."""
    pid = tl.program_id(0)
    n = tl.load(x_ptr + pid, mask=pid < n_rows).to(tl.int32)
    total = 0.0
    for k in range(n):
        total += k
    tl.store(out_ptr + pid, total, mask=pid < n_rows)


@triton.jit
def prints(x_ptr, out_ptr, n_rows, n_cols):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n_rows)
    tl.device_print("x", tl.sum(x))
    tl.store(out_ptr + i, x, mask=i < n_rows)
'''

REACH = [
    "sum_of_row",
    "max_of_row",
    "min_of_row",
    "sum_of_squares_in_a_loop",
    "product",
    "zero_times_undefined",
    "prefix",
    "block_pointer_sum",
    "store_without_mask",
]
HARMLESS = [
    "sum_with_other",
    "sum_of_chosen",
    "elementwise",
    "rows_of_a_tile",
    "number_of_turns",
    "prints",
]
ROWS = 6
# the others take a program a row
N_PROGRAMS = {"product": 1, "block_pointer_sum": 1, "rows_of_a_tile": 1, "prints": 1}
N_PROGRAMS |= {"number_of_turns": ROWS + 1}


@pytest.fixture
def kernels(tmp_path: Path) -> types.ModuleType:
    """All kernels of this file, new ones for each test: what is known of them is kept."""
    path = tmp_path / "submission.py"
    path.write_text(KERNELS)
    return load_module(path, name="submission_of_test_simulator_undefined")


def notes(
    kernels: types.ModuleType, name: str, cols: int, dtype: torch.dtype = torch.float32, **more: str
) -> list[Finding]:
    """All findings of one launch on small numbers, positive and negative."""
    x = (torch.arange(ROWS * cols) % 5 - 2).to(dtype).view(ROWS, cols)
    with recording() as log:
        getattr(kernels, name)[(N_PROGRAMS.get(name, ROWS),)](
            x, torch.zeros(400, dtype=dtype), ROWS, cols, **more
        )
    return log.findings


@pytest.mark.parametrize("name", REACH)
def test_lanes_that_reach_a_result_are_noted(kernels: types.ModuleType, name: str) -> None:
    """At the line of the load, with the value to give instead."""
    (note,) = notes(kernels, name, 13)

    assert (note.kind, note.argument) == ("note", "x_ptr")
    assert note.source_line.startswith(("x = tl.load", "w = tl.load"))
    assert ("w =" in note.source_line) == (name == "zero_times_undefined")
    assert "other=0.0" in note.advice


@pytest.mark.parametrize("name", HARMLESS)
def test_lanes_that_reach_nothing_are_not(kernels: types.ModuleType, name: str) -> None:
    """Cleared, dropped by the store, or never summed with others."""
    assert notes(kernels, name, 8 if name == "rows_of_a_tile" else 13) == []


@pytest.mark.parametrize("name", ["sum_of_row", "max_of_row", "product", "block_pointer_sum"])
def test_whole_blocks_leave_no_lane_out(kernels: types.ModuleType, name: str) -> None:
    """The same kernels on sizes that fill their blocks along the axis that is summed."""
    assert notes(kernels, name, 16) == []


def test_a_size_that_cuts_another_axis_is_looked_at_anew(kernels: types.ModuleType) -> None:
    """Rows of the tile alone are harmless; that K is cut, too, shows later, and then each time."""
    assert notes(kernels, "product", 16) == []
    assert len(notes(kernels, "product", 13)) == 1
    assert notes(kernels, "product", 16) == []
    assert len(notes(kernels, "product", 13)) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_every_type_is_looked_at(kernels: types.ModuleType, dtype: torch.dtype) -> None:
    """Narrow floats have infinities, integers their limits."""
    assert len(notes(kernels, "max_of_row", 13, dtype)) == 1


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_padding_is_a_value(kernels: types.ModuleType, padding: str) -> None:
    """A block pointer that says what lies outside."""
    assert notes(kernels, "block_pointer_sum", 13, PADDING=padding) == []


def test_looking_changes_nothing(kernels: types.ModuleType) -> None:
    """Values are those of zeros in the masked lanes, in place and out; counts are of one run."""
    x = torch.arange(26.0).view(2, 13)
    out, again = torch.full((16,), 7.0), torch.full((16,), 7.0)

    with recording() as log:
        kernels.sum_of_row[(2,)](x, out, 2, 13)
    kernels.sum_of_row[(2,)](x, again, 2, 13)

    assert out[:3].tolist() == [78.0, 247.0, 7.0]
    assert torch.equal(out, again)
    assert torch.equal(x, torch.arange(26.0).view(2, 13))
    (launch,) = log.launches
    assert (launch.arguments["x_ptr"].read, launch.arguments["out_ptr"].written) == (26, 2)
    assert launch.n_passes == 1


def test_nothing_is_printed_twice(
    kernels: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel's output is that of the run the student asked for."""
    with recording():
        kernels.prints[(1,)](torch.ones(16), torch.zeros(16), 3, 1)

    assert capsys.readouterr().out.splitlines() == ["pid (0, 0, 0) x 3.0"]
