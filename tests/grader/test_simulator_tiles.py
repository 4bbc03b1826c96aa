"""Tile accesses as boxes of memory agree with looking at each lane: values, counts and findings."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.simulator import Log, boxes, counts, index, load_module, recording, tiles
from grader.simulator.index import Condition, Index

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def copy_tile(
    x_ptr, out_ptr, M, N, x_offset, x_row_stride, x_col_stride, out_row_stride, out_col_stride,
    MASKED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + x_offset + rows[:, None] * x_row_stride + cols[None, :] * x_col_stride
    out_ptrs = out_ptr + rows[:, None] * out_row_stride + cols[None, :] * out_col_stride
    if MASKED:
        mask = (rows[:, None] < M) & (N > cols[None, :])
        tl.store(out_ptrs, tl.load(x_ptrs, mask=mask, other=-1.0) * 2, mask=mask)
    else:
        tl.store(out_ptrs, tl.load(x_ptrs) * 2)


@triton.jit
def reverse(x_ptr, out_ptr, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (n - 1 - i), mask=(i < n) & (i >= shift), other=i.to(tl.float32))
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def grouped(x_ptr, out_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    block = pid // GROUP + (pid % GROUP) * (tl.num_programs(0) // GROUP)
    i = block * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i <= n - 1, other=7.0), mask=i < n)


@triton.jit
def overlapping(x_ptr, out_ptr, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.program_id(0))


@triton.jit
def far(out_ptr, STRIDE: tl.constexpr):
    i = tl.program_id(0) * STRIDE + tl.arange(0, 4)
    tl.store(out_ptr + i, 1.0, mask=i < 8)


@triton.jit
def hashed(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = (i.to(tl.uint64) + 1) * 0x9E3779B97F4A7C15
    row = tl.program_id(0).to(tl.uint64) * 0x9E3779B97F4A7C15
    tl.store(out_ptr + i, ((h ^ row) >> 40).to(tl.float32), mask=i < n)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The kernels above, loaded once."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.py"
    path.write_text(KERNELS)
    return load_module(path, name="tile_kernels")


def lane_by_lane(patch: pytest.MonkeyPatch) -> None:
    """No access is a box."""
    patch.setattr(tiles, "find", lambda _pointer, _mask: None)


def both_ways(run: Callable[[torch.Tensor], None], n_out: int) -> tuple[Log, Log]:
    """Run with boxes, and lane by lane; both leave the same output."""
    logs, outs = [], []
    for way in (lambda _patch: None, lane_by_lane):
        out = torch.full((n_out,), -5.0)
        with pytest.MonkeyPatch.context() as patch, recording() as log:
            way(patch)
            run(out)
        logs.append(log)
        outs.append(out)
    torch.testing.assert_close(outs[0], outs[1], rtol=0, atol=0, equal_nan=True)
    return logs[0], logs[1]


def assert_alike(a: Log, b: Log) -> None:
    """The same traffic and findings."""
    assert [x.arguments for x in a.launches] == [x.arguments for x in b.launches]
    assert a.findings == b.findings


sizes = st.integers(1, 40)
layouts = st.sampled_from(["rows", "columns", "padded", "row", "column"])


def strides_of(layout: str, m: int, n: int) -> tuple[int, int]:
    """Row and column stride of an (m, n) matrix."""
    strides = {"rows": (n, 1), "columns": (1, m), "padded": (n + 3, 1), "row": (0, 1)}
    return strides.get(layout, (1, 0))


@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, offset=st.integers(0, 9), x_layout=layouts, out_layout=layouts)
def test_a_masked_tile(
    kernels: ModuleType, m: int, n: int, offset: int, x_layout: str, out_layout: str
) -> None:
    """Also where several lanes or programs write one element (row and column layouts)."""
    x = torch.randn(60 * 60)
    grid = (-(-m // 8), -(-n // 16))

    def run(out: torch.Tensor) -> None:
        kernels.copy_tile[grid](
            x, out, m, n, offset, *strides_of(x_layout, m, n), *strides_of(out_layout, m, n),
            MASKED=True, BLOCK_M=8, BLOCK_N=16,
        )  # fmt: skip

    assert_alike(*both_ways(run, 60 * 60))


@settings(max_examples=30, deadline=None)
@given(m=sizes, n=sizes, layout=layouts)
def test_an_unmasked_tile_that_may_run_out_of_bounds(
    kernels: ModuleType, m: int, n: int, layout: str
) -> None:
    """Findings are the same too."""
    x = torch.randn(m * n + 30)
    grid = (-(-m // 8), -(-n // 16))

    def run(out: torch.Tensor) -> None:
        kernels.copy_tile[grid](
            x, out, m, n, 0, *strides_of(layout, m, n), *strides_of("rows", m, n),
            MASKED=False, BLOCK_M=8, BLOCK_N=16,
        )  # fmt: skip

    assert_alike(*both_ways(run, m * n + 30))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 200), shift=st.integers(0, 60))
def test_descending_addresses_two_bounds_and_a_block_as_other(
    kernels: ModuleType, n: int, shift: int
) -> None:
    """What `other` holds differs from lane to lane."""
    x = torch.randn(n)
    assert_alike(
        *both_ways(lambda out: kernels.reverse[(-(-n // 32),)](x, out, n, shift, BLOCK=32), n)
    )


@settings(max_examples=30, deadline=None)
@given(n_groups=st.integers(1, 6), group=st.integers(1, 5), missing=st.integers(0, 40))
def test_programs_in_another_order(
    kernels: ModuleType, n_groups: int, group: int, missing: int
) -> None:
    """Starts of the programs are no progression."""
    n = max(1, n_groups * group * 16 - missing)
    x = torch.randn(n)
    grid = (n_groups * group,)
    assert_alike(*both_ways(lambda out: kernels.grouped[grid](x, out, n, GROUP=group, BLOCK=16), n))


@pytest.mark.parametrize("step", [0, 1, 5, 15])
def test_overlapping_stores_race_either_way(kernels: ModuleType, step: int) -> None:
    """Blocks of 16 that start fewer than 16 elements apart."""
    x = torch.randn(200)
    fast, slow = both_ways(lambda out: kernels.overlapping[(5,)](x, out, STEP=step, BLOCK=16), 200)
    assert_alike(fast, slow)
    assert {f.kind for f in fast.findings} == {"race"}


def test_adjacent_stores_do_not_race(kernels: ModuleType) -> None:
    """Blocks of 16 that start 16 elements apart."""
    x = torch.randn(200)
    fast, slow = both_ways(lambda out: kernels.overlapping[(5,)](x, out, STEP=16, BLOCK=16), 200)
    assert_alike(fast, slow)
    assert not fast.findings


def test_an_offset_of_32_bits_wraps_around(kernels: ModuleType) -> None:
    """2 * 2**30 is -2**31 in int32: below 8, so stored, far in front of the tensor."""
    fast, slow = both_ways(lambda out: kernels.far[(3,)](out, STRIDE=2**30), 8)
    assert_alike(fast, slow)
    (found,) = fast.findings
    assert (found.kind, found.program, found.count) == ("out_of_bounds", (2, 0, 0), 4)
    assert found.index == (-(2**31),)


def test_no_offset_wraps_around(kernels: ModuleType) -> None:
    """Programs 1 and 2 lie behind the mask."""
    fast, slow = both_ways(lambda out: kernels.far[(3,)](out, STRIDE=2**29), 8)
    assert_alike(fast, slow)
    assert not fast.findings


def test_unsigned_products_wrap_around(kernels: ModuleType) -> None:
    """As a multiplicative hash wants it."""
    n = 40
    out = torch.zeros(n)
    kernels.hashed[(5,)](out, n, BLOCK=8)
    golden = 0x9E3779B97F4A7C15
    want = [float((((i + 1) * golden % 2**64) ^ (i // 8 * golden % 2**64)) >> 40) for i in range(n)]
    assert out.tolist() == want


@st.composite
def formulas(draw: Any, rank: int = 3, n_programs: int = 3) -> Index:
    """A sum of terms along some axes, of any rank up to ``rank``."""
    shape = (draw(st.sampled_from([1, n_programs])), *draw(shapes(rank - 1)))
    steps = tuple(draw(st.integers(-4, 4)) if n > 1 else 0 for n in shape)
    offset = draw(st.integers(-20, 20))
    column = None
    if shape[0] > 1 and draw(st.booleans()):
        column = np.array(draw(st.lists(st.integers(-9, 9), min_size=3, max_size=3)), np.int64)
    made = Index(shape, offset, steps, column, 0, 0)
    values = brute_force(made)
    return Index(shape, offset, steps, column, int(values.min()), int(values.max()))


def shapes(rank: int) -> Any:
    """Shapes of small blocks."""
    return st.lists(st.sampled_from([1, 2, 4]), min_size=rank, max_size=rank)


def brute_force(x: Index) -> np.ndarray[Any, Any]:
    """Every element by the definition."""
    out = np.zeros(x.shape, np.int64)
    for at in itertools.product(*(range(n) for n in x.shape)):
        out[at] = x.offset + sum(s * i for s, i in zip(x.steps, at, strict=True))
        out[at] += 0 if x.column is None else x.column[at[0]]
    return out


@settings(max_examples=200, deadline=None)
@given(a=formulas(), b=formulas(), factor=st.integers(-3, 3))
def test_formulas_compute_as_arrays_do(a: Index, b: Index, factor: int) -> None:
    """Sums, products and comparisons against the definition, bounds included."""
    x, y = brute_force(a), brute_force(b)
    assert (a.written_out() == x).all()
    assert (index.times(a, factor).written_out() == x * factor).all()
    fits = all(1 in {m, n} or m == n for m, n in zip(x.shape, y.shape, strict=True))
    total, difference = index.plus(a, b), index.minus(a, b)
    less = index.below(a, b)
    if not fits:
        assert (total, difference, less) == (None, None, None)
        return
    assert total is not None
    assert difference is not None
    assert less is not None
    for got, want in ((total, x + y), (difference, x - y)):
        assert (got.written_out() == want).all()
        assert got.low <= want.min()
        assert want.max() <= got.high
    assert (less.written_out() == (x < y)).all()
    at_most = index.below(a, b, or_equal=True)
    assert at_most is not None
    assert (at_most.written_out() == (x <= y)).all()


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(formulas(), min_size=1, max_size=3), block=shapes(2), n=st.sampled_from([1, 3])
)
def test_boxes_are_the_lanes_of_the_mask(parts: list[Index], block: list[int], n: int) -> None:
    """Or there are none, and lanes are looked at one by one."""
    shape = (n, *block)
    fitting = [x for x in parts if all(a in {1, b} for a, b in zip(x.shape, shape, strict=True))]
    mask = Condition(shape, tuple(fitting))
    want = np.ones(shape, np.bool_)
    for x in fitting:
        want &= brute_force(x) < 0
    cut = boxes.cut(shape, mask)
    assert (mask.written_out() == want).all()
    if cut is None:
        return
    got = np.zeros(shape, np.int64)
    for box in cut:
        got[box.where] += 1
    assert (got == want).all()


@settings(max_examples=200, deadline=None)
@given(
    x=formulas(), itemsize=st.sampled_from([1, 2, 4, 8]), address=st.sampled_from([0, 8, 16, 48])
)
def test_sectors_of_a_box_equal_brute_force(x: Index, itemsize: int, address: int) -> None:
    """Each program counts for itself."""
    x = index.plus(x, index.constant(100)) or x
    box = (boxes.cut(x.shape, None) or [])[0]
    place = boxes.place(x, box)
    want = sum(
        len({(address + int(e) * itemsize) // 32 for e in row.reshape(-1)})
        for row in brute_force(x)
    )
    assert counts.count_place(place, itemsize, address) == want


def test_the_count_of_a_box_can_be_wrong() -> None:
    """Another start or step gives another count: the comparison above can fail."""
    place = boxes.Place((0, 8), (1,), (4, 8), 0, 31)
    assert counts.count_place(place, 4, 0) == 4
    assert counts.count_place(replace(place, starts=(1, 8)), 4, 0) == 8
    assert counts.count_place(replace(place, steps=(8,)), 4, 0) == 32
