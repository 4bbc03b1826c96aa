"""The cache model, against an LRU written another way, and against figures worked out by hand."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.simulator import ArgumentTraffic, Cache, load_module, recording
from grader.simulator.cache import LINE_BYTES, TileAccess, dram_bytes, tile_access

KB = 1024

KERNELS = '''
import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, K, N, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    """Square tiles; GROUP rows of tiles are walked column by column (1: row by row)."""
    n_columns = N // BLOCK
    pid = tl.program_id(0)
    first_row = pid // (GROUP * n_columns) * GROUP
    within = pid % (GROUP * n_columns)
    m = (first_row + within % GROUP) * BLOCK + tl.arange(0, BLOCK)
    n = within // GROUP * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n[None, :])
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def first_column(x_ptr, out_ptr, stride):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(out_ptr + i, tl.load(x_ptr + i * stride))


@triton.jit
def twice(x_ptr, out_ptr, stride):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x)
    tl.store(out_ptr + i, x + tl.load(x_ptr + i))


@triton.jit
def counted(x_ptr, out_ptr, stride):
    tl.atomic_add(out_ptr, 1)


@triton.jit
def outside(x_ptr, out_ptr, stride):
    i = tl.arange(0, 16)
    tl.store(out_ptr + i, tl.load(x_ptr + i - 8))
'''


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """All kernels of this file."""
    path: Path = tmp_path_factory.mktemp("cache") / "submission.py"
    path.write_text(KERNELS)
    return load_module(path, name="submission_of_test_simulator_cache")


def multiply(kernels: types.ModuleType, group: int, cache: Cache) -> dict[str, ArgumentTraffic]:
    """Traffic of a product of 256 x 256 matrices in tiles of 32 x 32, of 4 KB each."""
    a, b, c = torch.randn(256, 256), torch.randn(256, 256), torch.zeros(256, 256)
    with recording(cache) as log:
        kernels.matmul[(64,)](a, b, c, 256, 256, BLOCK=32, GROUP=group)
    torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)
    return log.launches[0].arguments


def test_grouped_order_reads_less_from_dram(kernels: types.ModuleType) -> None:
    """8 x 8 tiles of C, 8 programs in flight, 16 tiles fit; a strip (a row of A's tiles) is 32 KB.

    Row by row, 8 programs share 1 strip of A and need all 8 of B: 9 strips in each of 8 waves. In
    groups of 4 rows they need 4 of A and 2 of B: 6 strips. Groups of 8 are the rows, transposed.
    """
    cache = Cache(64 * KB, in_flight=8)

    rows, groups, columns = (multiply(kernels, group, cache) for group in (1, 4, 8))

    assert rows["a_ptr"].dram_read_bytes == 8 * 1 * 32 * KB
    assert rows["b_ptr"].dram_read_bytes == 8 * 8 * 32 * KB
    assert groups["a_ptr"].dram_read_bytes == 8 * 4 * 32 * KB
    assert groups["b_ptr"].dram_read_bytes == 8 * 2 * 32 * KB
    assert columns["a_ptr"].dram_read_bytes == rows["b_ptr"].dram_read_bytes
    assert columns["b_ptr"].dram_read_bytes == rows["a_ptr"].dram_read_bytes
    for traffic in (rows, groups, columns):
        assert traffic["c_ptr"].dram_written_bytes == 256 * KB
        assert traffic["c_ptr"].dram_read_bytes == 0
        # before any cache, each of 64 programs reads a strip of both
        assert traffic["a_ptr"].read_bytes == traffic["b_ptr"].read_bytes == 64 * 32 * KB


def test_one_program_at_a_time_gains_nothing_from_grouping(kernels: types.ModuleType) -> None:
    """Two strips and a tile of C are more than fits, so nothing survives until the next program."""
    cache = Cache(64 * KB, in_flight=1)

    for group in (1, 4, 8):
        traffic = multiply(kernels, group, cache)
        assert traffic["a_ptr"].dram_read_bytes == 64 * 32 * KB
        assert traffic["b_ptr"].dram_read_bytes == 64 * 32 * KB


def test_a_cache_that_holds_everything_reads_everything_once(kernels: types.ModuleType) -> None:
    """Whatever the order."""
    for group in (1, 4):
        traffic = multiply(kernels, group, Cache(1024 * KB, in_flight=8))
        assert traffic["a_ptr"].dram_read_bytes == 256 * KB
        assert traffic["b_ptr"].dram_read_bytes == 256 * KB


@pytest.mark.parametrize(
    ("name", "stride", "read", "written"),
    [
        # 64 elements, each in a line of its own, of which one sector is fetched
        pytest.param("first_column", 32, 64 * 32, 64 * 4, id="a-sector-for-each"),
        # 8 elements share a sector, programs share lines
        pytest.param("first_column", 1, 64 * 4, 64 * 4, id="neighbours"),
        pytest.param("twice", 1, 64 * 4, 64 * 4, id="again-from-the-cache"),
        # one word, updated in the cache by all
        pytest.param("counted", 1, 0, 32, id="atomics"),
    ],
)
def test_sectors_are_fetched_and_written_once(
    kernels: types.ModuleType, name: str, stride: int, read: int, written: int
) -> None:
    """Four programs of 16 elements, and room for all."""
    x, out = torch.randn(64 * 32), torch.zeros(64)
    with recording(Cache()) as log:
        getattr(kernels, name)[(4,)](x, out.int() if name == "counted" else out, stride)

    traffic = log.launches[0].arguments
    assert traffic["x_ptr"].dram_read_bytes == read
    assert traffic["out_ptr"].dram_written_bytes == written
    assert traffic["out_ptr"].dram_read_bytes == (32 if name == "counted" else 0)


def test_a_launch_finds_the_cache_empty(kernels: types.ModuleType) -> None:
    """Two launches in a row cost the same."""
    x, out = torch.randn(64), torch.zeros(64)
    with recording(Cache()) as log:
        kernels.first_column[(4,)](x, out, 1)
        kernels.first_column[(4,)](x, out, 1)

    assert log.launches[0].arguments == log.launches[1].arguments


def test_what_lies_outside_moves_nothing(kernels: types.ModuleType) -> None:
    """Lanes out of bounds are a finding, not traffic of the neighbour."""
    with recording(Cache()) as log:
        kernels.outside[(1,)](torch.randn(64), torch.zeros(64), 1)

    assert log.launches[0].arguments["x_ptr"].dram_read_bytes == 32
    assert [f.kind for f in log.findings] == ["out_of_bounds"]


def test_nothing_is_modelled_unless_asked_for(kernels: types.ModuleType) -> None:
    """Grading does not pay for it."""
    with recording() as log:
        kernels.first_column[(4,)](torch.randn(64), torch.zeros(64), 1)

    assert log.launches[0].arguments["x_ptr"].dram_read_bytes is None


def lines_by_hand(index: np.ndarray, active: np.ndarray, itemsize: int) -> list[dict[int, int]]:
    """Per program, sectors of each line as bits."""
    found = []
    for row, keep in zip(index, active, strict=True):
        lines: dict[int, int] = {}
        for i in row[keep].tolist():
            byte = i * itemsize
            lines[byte // 128] = lines.get(byte // 128, 0) | 1 << byte // 32 % 4
        found.append(lines)
    return found


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("masked", [True, False])
def test_lines_of_a_tile_equal_brute_force(itemsize: int, *, masked: bool) -> None:
    """Random elements, some masked, one program with none."""
    rng = np.random.default_rng(itemsize)
    index = rng.integers(0, 400, (5, 4, 8))
    active = rng.random(index.shape) < 0.5 if masked else np.ones(index.shape, np.bool_)
    active[3] &= not masked

    tile = tile_access(
        "x", "load", np.arange(5), index, active if masked else None, itemsize, buffer=0
    )

    got = [
        dict(zip(tile.lines[a:b].tolist(), tile.sectors[a:b].tolist(), strict=True))
        for a, b in zip(tile.starts[:-1], tile.starts[1:], strict=True)
    ]
    assert got == lines_by_hand(index, active, itemsize)


def turns_by_hand(accesses: list[TileAccess], in_flight: int) -> list[tuple[TileAccess, int]]:
    """Slots, each with the remaining accesses of a program; a program that ends is replaced."""
    steps: dict[int, list[tuple[TileAccess, int]]] = {}
    for access in accesses:
        for row, program in enumerate(access.programs.tolist()):
            steps.setdefault(program, []).append((access, row if len(access.starts) > 2 else 0))
    waiting = [steps[program] for program in sorted(steps)]
    slots, waiting = waiting[:in_flight], waiting[in_flight:]
    turns = []
    while slots:
        for i, rest in enumerate(slots):
            if rest:
                turns.append(rest.pop(0))
            elif waiting:
                slots[i] = waiting.pop(0)
        if not waiting:
            slots = [rest for rest in slots if rest]
    return turns


def by_hand(accesses: list[TileAccess], cache: Cache) -> dict[str, tuple[int, int]]:
    """An LRU of lists: the oldest line first; sectors as sets."""
    moved = {a.argument: [0, 0] for a in accesses}
    order: list[int] = []
    valid: dict[int, set[int]] = {}
    dirty: dict[int, tuple[str, set[int]]] = {}
    for access, row in turns_by_hand(accesses, cache.in_flight):
        for k in range(access.starts[row], access.starts[row + 1]):
            line = int(access.lines[k])
            wanted = {s for s in range(4) if int(access.sectors[k]) >> s & 1}
            if line in order:
                order.remove(line)
            elif len(order) == cache.size_bytes // 128:
                gone = order.pop(0)
                owner, sectors = dirty.pop(gone, (access.argument, set()))
                moved[owner][1] += 32 * len(sectors)
                valid.pop(gone)
            order.append(line)
            have = valid.setdefault(line, set())
            moved[access.argument][0] += 32 * len(wanted - have) if access.reads else 0
            if access.writes:
                dirty[line] = (access.argument, dirty.get(line, ("", set()))[1] | wanted)
            have |= wanted
    for owner, sectors in dirty.values():
        moved[owner][1] += 32 * len(sectors)
    return {name: (read, written) for name, (read, written) in moved.items()}


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    room=st.integers(1, 12),
    in_flight=st.integers(1, 5),
    n_accesses=st.integers(1, 12),
)
def test_dram_traffic_equals_another_lru(
    seed: int, room: int, in_flight: int, n_accesses: int
) -> None:
    """Random loads, stores and atomics of random programs on two arguments."""
    rng = np.random.default_rng(seed)
    accesses = []
    for _ in range(n_accesses):
        programs = np.flatnonzero(rng.random(7) < 0.6)
        if not programs.size:
            continue
        rows = 1 if rng.random() < 0.3 else programs.size
        index = rng.integers(0, 600, (rows, 6))
        argument = int(rng.integers(2))
        kind = str(rng.choice(["load", "store", "atomic_add"]))
        accesses.append(
            tile_access(f"arg{argument}", kind, programs, index, None, 4, buffer=argument)
        )
    cache = Cache(room * LINE_BYTES, in_flight)

    assert dram_bytes(accesses, cache) == by_hand(accesses, cache)
