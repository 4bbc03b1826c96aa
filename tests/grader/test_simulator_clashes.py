"""Stores of one program that give an element several values, and near misses that do not."""

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
def all_lanes_to_one(x_ptr, out_ptr, start_ptr):
    """Meant as a sum, perhaps."""
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid + i * 0, tl.load(x_ptr + pid * 8 + i))


@triton.jit
def all_lanes_where_told(x_ptr, out_ptr, start_ptr):
    """Programs start at no regular distance."""
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + tl.load(start_ptr + pid) + i * 0, tl.load(x_ptr + pid * 8 + i))


@triton.jit
def rows_on_one_line(x_ptr, out_ptr, start_ptr):
    """The row was left out of the offsets of the store."""
    pid = tl.program_id(0)
    rows, cols = tl.arange(0, 2)[:, None], tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + pid * 8 + rows * 4 + cols)
    tl.store(out_ptr + pid * 4 + rows * 0 + cols, x)


@triton.jit
def halves(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid * 4 + i // 2, tl.load(x_ptr + pid * 8 + i))


@triton.jit
def wrapped(x_ptr, out_ptr, start_ptr):
    """% instead of a mask: of 8 lanes the last three come round again."""
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid * 5 + i % 5, tl.load(x_ptr + pid * 8 + i))


@triton.jit
def scatter(x_ptr, out_ptr, start_ptr):
    """Where a value goes depends on what was loaded: 0 1 2 1 0 0 3 3."""
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid * 4 + tl.load(start_ptr + 8 + i), tl.load(x_ptr + pid * 8 + i))


@triton.jit
def two_active_lanes(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid + i * 0, tl.load(x_ptr + pid * 8 + i), mask=(i == 2) | (i == 5))


@triton.jit
def block_pointer_without_a_stride(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    block = tl.make_block_ptr(out_ptr + pid * 4, (2, 4), (0, 1), (0, 0), (2, 4), (1, 0))
    rows, cols = tl.arange(0, 2)[:, None], tl.arange(0, 4)[None, :]
    tl.store(block, tl.load(x_ptr + pid * 8 + rows * 4 + cols))


@triton.jit
def one_number_for_all_lanes(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid + tl.arange(0, 8) * 0, 3.0)


@triton.jit
def one_number(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.sum(tl.load(x_ptr + pid * 8 + tl.arange(0, 8))))


@triton.jit
def sum_in_all_lanes(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    total = tl.sum(tl.load(x_ptr + pid * 8 + i))
    tl.store(out_ptr + pid + i * 0, total + i * 0)


@triton.jit
def nan_in_all_lanes(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid + i * 0, float("nan") + tl.load(x_ptr + pid * 8 + i))


@triton.jit
def columns_twice(x_ptr, out_ptr, start_ptr):
    """Columns past the end repeat the last one, value and all."""
    pid = tl.program_id(0)
    cols = tl.minimum(tl.arange(0, 8), 4)
    tl.store(out_ptr + pid * 5 + cols, tl.load(x_ptr + pid * 5 + cols))


@triton.jit
def columns_come_round(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    cols = tl.arange(0, 8) % 5
    tl.store(out_ptr + pid * 5 + cols, tl.load(x_ptr + pid * 5 + cols))


@triton.jit
def one_active_lane(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid + i * 0, tl.load(x_ptr + pid * 8 + i), mask=i == 3)


@triton.jit
def scatter_of_some(x_ptr, out_ptr, start_ptr):
    """Of 0 1 2 1 0 0 3 3 those lanes that come to an element first."""
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    x = tl.load(x_ptr + pid * 8 + i)
    tl.store(out_ptr + pid * 4 + tl.load(start_ptr + 8 + i), x, mask=(i < 3) | (i == 6))


@triton.jit
def one_after_the_other(x_ptr, out_ptr, start_ptr):
    """The same element in every turn, in an order that the program gives."""
    pid = tl.program_id(0)
    for k in range(8):
        tl.store(out_ptr + pid, tl.load(x_ptr + pid * 8 + k))


@triton.jit
def backwards(x_ptr, out_ptr, start_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    tl.store(out_ptr + pid * 8 + 7 - i, tl.load(x_ptr + pid * 8 + i))


@triton.jit
def all_in_one_row(x_ptr, out_ptr, start_ptr):
    """The lanes agree, the programs do not."""
    pid = tl.program_id(0)
    cols = tl.minimum(tl.arange(0, 8), 4)
    tl.store(out_ptr + cols, tl.load(x_ptr + pid * 5 + cols))
'''
# the first element that several lanes of program 0 write, two of these, and how many elements
# there are over all three programs
CLASHES = {
    "all_lanes_to_one": (0, "0 and 1", 3),
    "all_lanes_where_told": (11, "0 and 1", 3),
    "rows_on_one_line": (0, "(0, 0) and (1, 0)", 12),
    "halves": (0, "0 and 1", 12),
    "wrapped": (0, "0 and 5", 9),
    "scatter": (0, "0 and 4", 9),
    "two_active_lanes": (0, "2 and 5", 3),
    "block_pointer_without_a_stride": (0, "(0, 0) and (1, 0)", 12),
}
HONEST = [
    "one_number_for_all_lanes",
    "one_number",
    "sum_in_all_lanes",
    "nan_in_all_lanes",
    "columns_twice",
    "columns_come_round",
    "one_active_lane",
    "scatter_of_some",
    "one_after_the_other",
    "backwards",
]
N = 3  # programs


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """All kernels of this file."""
    path: Path = tmp_path_factory.mktemp("clashes") / "submission.py"
    path.write_text(KERNELS)
    return load_module(path, name="submission_of_test_simulator_clashes")


def findings(
    kernels: types.ModuleType, name: str, dtype: torch.dtype = torch.float32
) -> list[Finding]:
    """Of one launch on numbers that all differ."""
    start = torch.tensor([11, 3, 20, 0, 0, 0, 0, 0, 0, 1, 2, 1, 0, 0, 3, 3], dtype=torch.int32)
    x = torch.arange(1, 25).to(dtype)
    with recording() as log:
        getattr(kernels, name)[(N,)](x, torch.zeros(24, dtype=dtype), start)
    return log.findings


@pytest.mark.parametrize("name", CLASHES)
def test_lanes_that_write_different_values_race(kernels: types.ModuleType, name: str) -> None:
    """With the element, two lanes, how many elements there are, and what to do."""
    element, lanes, n = CLASHES[name]

    (finding,) = findings(kernels, name)

    assert (finding.kind, finding.kernel, finding.argument) == ("race", name, "out_ptr")
    assert (finding.program, finding.index, finding.count) == ((0, 0, 0), (element,), n)
    assert f"lanes {lanes} of one program store" in finding.text
    assert finding.source_line.startswith("tl.store(")
    assert "tl.sum" in finding.advice


@pytest.mark.parametrize("name", HONEST)
def test_lanes_that_agree_do_not(kernels: types.ModuleType, name: str) -> None:
    """Equal values, masked lanes, an order that the program gives."""
    assert findings(kernels, name) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int64])
def test_every_type_is_looked_at(kernels: types.ModuleType, dtype: torch.dtype) -> None:
    """The values are shown as what they are."""
    (finding,) = findings(kernels, "two_active_lanes", dtype)

    shown = "3.0 and 6.0" if dtype.is_floating_point else "3 and 6"
    assert f"store {shown} to" in finding.text
    assert findings(kernels, "columns_twice", dtype) == []


def test_programs_that_clash_are_told_from_lanes(kernels: types.ModuleType) -> None:
    """All rows in one place: a race, but of programs."""
    (finding,) = findings(kernels, "all_in_one_row")

    assert finding.kind == "race"
    assert "nothing orders them" in finding.text
    assert "lanes" not in finding.text


PRODUCTS = """
import triton
import triton.language as tl


@triton.jit
def rows_come_round(a_ptr, b_ptr, c_ptr, M, OFF: tl.constexpr):
    rows = tl.arange(0, 64) % M
    product(a_ptr, b_ptr, c_ptr, rows, OFF)


@triton.jit
def last_tile_moved_back(a_ptr, b_ptr, c_ptr, M, OFF: tl.constexpr):
    rows = tl.minimum(tl.program_id(0) * 32, M - 32) + tl.arange(0, 32)
    product(a_ptr, b_ptr, c_ptr, rows, OFF)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, rows, OFF: tl.constexpr):
    i, cols = tl.arange(0, 32), tl.arange(0, 64)
    a = tl.load(a_ptr + rows[:, None] * 32 + i[None, :])
    b = tl.load(b_ptr + i[:, None] * 64 + cols[None, :])
    c = tl.dot(a, b, input_precision="ieee")
    if OFF:
        # by as much as rounding might be
        c += (c + tl.program_id(0) + tl.arange(0, rows.shape[0])[:, None]) * 1e-6
    tl.store(c_ptr + rows[:, None] * 64 + cols[None, :], c)
"""


@pytest.mark.parametrize(
    ("name", "grid", "same"), [("rows_come_round", 1, []), ("last_tile_moved_back", 2, ["note"])]
)
def test_products_of_equal_rows_are_equal(
    tmp_path: Path, name: str, grid: int, same: list[str]
) -> None:
    """A GPU adds up a row alike wherever it lies in a tile; NumPy does not, to the last bit."""
    path = tmp_path / "products.py"
    path.write_text(PRODUCTS)
    kernel = getattr(load_module(path, name="products_of_test_simulator_clashes"), name)
    rng = torch.Generator().manual_seed(0)
    a, b = (torch.randn(50, 32, generator=rng), torch.randn(32, 64, generator=rng))

    for differ in (False, True):
        with recording() as log:
            c = torch.zeros(50, 64)
            kernel[(grid,)](a, b, c, 50, differ)
        assert [finding.kind for finding in log.findings] == (["race"] if differ else same)
    torch.testing.assert_close(c, a @ b, rtol=1e-3, atol=1e-3)
