"""Elements, bytes, sectors and loop trips of whole launches, against brute force."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.simulator import ArgumentTraffic, Launch, Loop, load_module, recording

N_PROGRAMS, ROWS, COLS = 5, 4, 8

KERNELS = '''
import torch
import triton
import triton.language as tl


@triton.jit
def strided(x_ptr, out_ptr, index_ptr, base, step, s0, s1, m0, m1, limit, MASKED: tl.constexpr):
    """A 4 x 8 tile of any strides; the mask is any half plane of it."""
    pid = tl.program_id(0)
    i, j = tl.arange(0, 4), tl.arange(0, 8)
    offsets = base + pid * step + i[:, None] * s0 + j[None, :] * s1
    if MASKED:
        mask = i[:, None] * m0 + j[None, :] * m1 + pid < limit
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x, mask=mask)
    else:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def bounded(x_ptr, out_ptr, index_ptr, base, step, s0, s1, m0, m1, limit, MASKED: tl.constexpr):
    """The usual mask: a bound on rows and one on columns."""
    pid = tl.program_id(0)
    i, j = tl.arange(0, 4), tl.arange(0, 8)
    offsets = base + pid * step + i[:, None] * s0 + j[None, :] * s1
    mask = (i[:, None] < m0) & (j[None, :] + pid < m1)
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def gathered(x_ptr, out_ptr, index_ptr, base, step, s0, s1, m0, m1, limit, MASKED: tl.constexpr):
    """Any elements, as an index tensor says, some lanes masked by where they are."""
    pid = tl.program_id(0)
    i, j = tl.arange(0, 4), tl.arange(0, 8)
    index = tl.load(index_ptr + pid * 32 + i[:, None] * 8 + j[None, :])
    mask = index % 7 < limit
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=mask), mask=mask)


@triton.jit
def wrapped(x_ptr, out_ptr, index_ptr, base, step, s0, s1, m0, m1, limit, MASKED: tl.constexpr):
    """Rows and columns that wrap around, as in the matmul tutorial."""
    pid = tl.program_id(0)
    i, j = (pid * 4 + tl.arange(0, 4)) % 13, (pid * 8 + tl.arange(0, 8)) % 11
    offsets = base + i[:, None] * s0 + j[None, :] * s1
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def broadcast(x_ptr, out_ptr, index_ptr, base, step, s0, s1, m0, m1, limit, MASKED: tl.constexpr):
    """One pointer a row, repeated along the columns by the mask; and one for all programs."""
    i, j = tl.arange(0, 4), tl.arange(0, 8)
    mask = (i[:, None] < m0) & (j[None, :] < m1)
    x = tl.load(x_ptr + base + i[:, None] * s0 + j[None, :] * 0, mask=mask)
    tl.store(out_ptr + base + i[:, None] * s0 + j[None, :] * s1, x, mask=mask)


@triton.jit
def run_of_elements(
    x_ptr, out_ptr, index_ptr, base, step, s0, s1, m0, m1, limit, MASKED: tl.constexpr
):
    """One block after the other, as elementwise kernels go."""
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    mask = i < limit
    x = tl.load(x_ptr + base + i, mask=mask)
    tl.store(out_ptr + base + i, x, mask=mask)


@triton.jit
def inner(n):
    total = 0
    for k in range(n):
        total += k
    return total


@triton.jit
def loops(out_ptr, n):
    pid = tl.program_id(0)
    total = 0
    for k in range(pid, n):
        total += k
    for k in tl.range(0, 10, 3):
        total += inner(2)
    left = pid
    while left > 0:
        left -= 1
    for k in tl.static_range(4):
        total += k
    for k in range(n, 0):
        total += k
    tl.store(out_ptr + pid, total + left)
'''


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """All kernels of this file."""
    path: Path = tmp_path_factory.mktemp("counts") / "submission.py"
    path.write_text(KERNELS)
    return load_module(path, name="submission_of_test_simulator_counts")


Lanes = tuple[np.ndarray, np.ndarray, np.ndarray]  # elements read, elements written, mask


def lanes(name: str, pid: int, numbers: dict[str, int], index: np.ndarray) -> Lanes:
    """What one program of each kernel touches, worked out lane by lane."""
    base, step, s0, s1, m0, m1, limit = (
        numbers[k] for k in ("base", "step", "s0", "s1", "m0", "m1", "limit")
    )
    i, j = np.arange(ROWS)[:, None], np.arange(COLS)[None, :]
    everywhere = np.ones((ROWS, COLS), np.bool_)
    tile = base + pid * step + i * s0 + j * s1
    if name == "strided":
        mask = (i * m0 + j * m1 + pid < limit) if numbers["MASKED"] else everywhere
        return tile, tile, mask
    if name == "bounded":
        return tile, tile, (i < m0) & (j + pid < m1)
    if name == "gathered":
        return index[pid], index[pid], index[pid] % 7 < limit
    if name == "wrapped":
        tile = base + (pid * 4 + i) % 13 * s0 + (pid * 8 + j) % 11 * s1
        return tile, tile, everywhere
    if name == "broadcast":
        row = base + i * s0 + 0 * j
        return row, base + i * s0 + j * s1, (i < m0) & (j < m1)
    run = pid * 8 + np.arange(8)
    return base + run, base + run, run < limit


def sectors(elements: np.ndarray, mask: np.ndarray, itemsize: int, address: int) -> int:
    """Distinct 32-byte pieces of memory."""
    return len({(address + e * itemsize) // 32 for e in elements[mask].tolist()})


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_sectors_equal_brute_force(kernels: types.ModuleType, data: st.DataObject) -> None:
    """Whatever the strides (negative, zero, overlapping), masks, dtypes and alignment."""
    name = data.draw(
        st.sampled_from(
            ["strided", "bounded", "gathered", "wrapped", "broadcast", "run_of_elements"]
        )
    )
    dtype = data.draw(
        st.sampled_from([torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.int64])
    )
    stride = st.integers(-40, 40)
    numbers = {
        "base": data.draw(st.integers(1000, 1040)),
        "step": data.draw(stride),
        "s0": data.draw(stride),
        "s1": data.draw(st.one_of(stride, st.just(1))),
        "m0": data.draw(st.integers(-3, 5)),
        "m1": data.draw(st.integers(-3, 9)),
        "limit": data.draw(st.integers(-5, 45)),
        "MASKED": data.draw(st.integers(0, 1)),
    }
    seed, shift = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(0, 8))
    index = np.random.default_rng(seed).integers(0, 1500, (N_PROGRAMS, ROWS, COLS))
    # a storage that begins `shift` elements after an aligned address
    size = 2100 + shift
    x = torch.zeros(size, dtype=dtype)
    if dtype is not torch.bfloat16:
        x = torch.from_numpy(x.numpy()[shift:])
    out = torch.zeros(2100, dtype=dtype)

    with recording() as log:
        getattr(kernels, name)[(N_PROGRAMS,)](x, out, torch.from_numpy(index), **numbers)

    traffic = log.launches[0].arguments
    touched = [lanes(name, pid, numbers, index) for pid in range(N_PROGRAMS)]
    itemsize, n = x.element_size(), sum(int(mask.sum()) for _, _, mask in touched)
    got_read, got_written = traffic["x_ptr"], traffic["out_ptr"]
    address = x.untyped_storage().data_ptr()
    assert (got_read.read, got_read.read_bytes) == (n, n * itemsize)
    assert (got_written.written, got_written.written_bytes) == (n, n * itemsize)
    assert got_read.read_sectors == sum(sectors(r, m, itemsize, address) for r, _, m in touched)
    address = out.untyped_storage().data_ptr()
    assert got_written.written_sectors == sum(
        sectors(w, m, itemsize, address) for _, w, m in touched
    )


@pytest.mark.parametrize(
    ("moved", "want"),
    [
        pytest.param(ArgumentTraffic(read=8, read_bytes=32, read_sectors=1), 1.0, id="neighbours"),
        pytest.param(ArgumentTraffic(read=8, read_bytes=32, read_sectors=8), 0.125, id="strided"),
        pytest.param(ArgumentTraffic(read=64, read_bytes=256, read_sectors=1), 1.0, id="the-same"),
        pytest.param(ArgumentTraffic(), None, id="nothing"),
    ],
)
def test_useful_share(moved: ArgumentTraffic, want: float | None) -> None:
    """Bytes asked for, of 32 for each sector; what lanes share is no more than all of it."""
    assert moved.read_share == want
    assert moved.written_share is None


def trips(launch: Launch) -> dict[str, tuple[int, int, int]]:
    """Turns in all, fewest and most, by the loop's text."""
    return {f"{k.line}:{k.source_line}": (k.turns, k.fewest, k.most) for k in launch.loops}


def line_of(text: str, nth: int = 0) -> int:
    """The line of the nth appearance of a text in the kernels."""
    found = [i for i, line in enumerate(KERNELS.splitlines(), 1) if line.strip() == text]
    return found[nth]


def test_loop_trips(kernels: types.ModuleType) -> None:
    """Four programs, n = 6: what differs between programs, a helper's loop, none, and unrolled ones.

    range(pid, 6) turns 6, 5, 4, 3 times; tl.range(0, 10, 3) four times, each with two in the
    helper; the while loop 0, 1, 2, 3 times; range(6, 0) never; tl.static_range is no loop.
    """
    with recording() as log:
        kernels.loops[(4,)](torch.zeros(4), 6)

    assert trips(log.launches[0]) == {
        f"{line_of('for k in range(pid, n):')}:for k in range(pid, n):": (18, 3, 6),
        f"{line_of('for k in tl.range(0, 10, 3):')}:for k in tl.range(0, 10, 3):": (16, 4, 4),
        f"{line_of('for k in range(n):')}:for k in range(n):": (32, 8, 8),
        f"{line_of('while left > 0:')}:while left > 0:": (6, 0, 3),
        f"{line_of('for k in range(n, 0):')}:for k in range(n, 0):": (0, 0, 0),
    }


def test_trips_are_not_counted_twice(tmp_path: Path) -> None:
    """A launch that runs again to look for races, or in parts, counts what its programs did."""
    path = tmp_path / "submission.py"
    path.write_text(
        KERNELS[: KERNELS.index("@triton.jit")]
        + """
@triton.jit
def kernel(out_ptr):
    for k in range(3):
        tl.store(out_ptr + k, tl.load(out_ptr + k) + tl.program_id(0))
"""
    )
    with recording() as log:
        load_module(path, name="submission_of_trips").kernel[(5,)](torch.zeros(3))

    (launch,) = log.launches
    assert launch.n_passes == 2
    (loop,) = launch.loops
    assert loop == Loop(str(path), 10, "for k in range(3):", 15, 3, 3)
