"""Races and locks: what must be found whatever order programs ran in, and its near misses."""

from __future__ import annotations

import functools
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from grader.simulator import Finding, Log, load_module, recording, schedule
from grader.simulator.ordering import Order

N = 12  # programs
COLS = 16

KERNELS = '''
import torch
import triton
import triton.language as tl


@triton.jit
def load_add_store(x_ptr, sum_ptr, lock_ptr):
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + tl.program_id(0) * 16 + cols)
    tl.store(sum_ptr + cols, tl.load(sum_ptr + cols) + x)


@triton.jit
def load_add_store_of_pairs(x_ptr, sum_ptr, lock_ptr):
    """Only every second program has a partner."""
    pid = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + pid * 16 + cols)
    row_ptr = sum_ptr + pid // 2 * 16 + cols
    tl.store(row_ptr, tl.load(row_ptr) + x)


@triton.jit
def row_of_its_own(x_ptr, sum_ptr, lock_ptr):
    pid = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + pid * 16 + cols)
    row_ptr = sum_ptr + pid * 16 + cols
    tl.store(row_ptr, tl.load(row_ptr) + x)


@triton.jit
def atomic_add(x_ptr, sum_ptr, lock_ptr):
    cols = tl.arange(0, 16)
    tl.atomic_add(sum_ptr + cols, tl.load(x_ptr + tl.program_id(0) * 16 + cols))


@triton.jit
def atomic_add_and_load(x_ptr, sum_ptr, lock_ptr):
    """A plain load beside the other programs' atomics."""
    pid = tl.program_id(0)
    cols = tl.arange(0, 16)
    tl.atomic_add(sum_ptr + cols, tl.load(x_ptr + pid * 16 + cols))
    tl.store(sum_ptr + (pid + 1) * 16 + cols, tl.load(sum_ptr + cols))


@triton.jit
def neighbour(x_ptr, sum_ptr, lock_ptr):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(sum_ptr + i, tl.load(sum_ptr + i + 1))


@triton.jit
def own_block(x_ptr, sum_ptr, lock_ptr):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(sum_ptr + i, tl.load(sum_ptr + i) * 2)


@triton.jit
def add_under_lock(sum_ptr, x):
    cols = tl.arange(0, 16)
    tl.store(sum_ptr + cols, tl.load(sum_ptr + cols) + x)


@triton.jit
def lock_by_cas(x_ptr, sum_ptr, lock_ptr):
    x = tl.load(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    add_under_lock(sum_ptr, x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def lock_by_cas_not_zero(x_ptr, sum_ptr, lock_ptr):
    """The same in another spelling, with explicit semantics."""
    x = tl.load(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16))
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") != 0:
        pass
    add_under_lock(sum_ptr, x)
    tl.atomic_xchg(lock_ptr, 0, sem="release")


@triton.jit
def lock_by_xchg(x_ptr, sum_ptr, lock_ptr):
    x = tl.load(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16))
    while tl.atomic_xchg(lock_ptr, 1) == 1:
        pass
    add_under_lock(sum_ptr, x)
    tl.atomic_cas(lock_ptr, 1, 0)


@triton.jit
def lock_in_a_variable(x_ptr, sum_ptr, lock_ptr):
    x = tl.load(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16))
    taken = tl.atomic_cas(lock_ptr, 0, 1)
    while taken == 1:
        taken = tl.atomic_cas(lock_ptr, 0, 1)
    add_under_lock(sum_ptr, x)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def lock_of_a_group(x_ptr, sum_ptr, lock_ptr, GROUPS: tl.constexpr = 4):
    """As in the layer-norm tutorial: a lock and a row of partial sums for each group of rows."""
    pid = tl.program_id(0)
    cols = tl.arange(0, 16)
    group = pid % GROUPS
    row_ptr = sum_ptr + group * 16 + cols
    count_ptr = lock_ptr + GROUPS + group
    partial = tl.load(x_ptr + pid * 16 + cols)
    while tl.atomic_cas(lock_ptr + group, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial += tl.load(row_ptr)
    tl.store(row_ptr, partial)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + group, 0)


@triton.jit
def lock_of_another_group(x_ptr, sum_ptr, lock_ptr, GROUPS: tl.constexpr = 4):
    """Groups 0 and 2 share a row, and so do 1 and 3, but not a lock."""
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * 16 + tl.arange(0, 16))
    while tl.atomic_cas(lock_ptr + pid % GROUPS, 0, 1) == 1:
        pass
    add_under_lock(sum_ptr + pid % 2 * 16, x)
    tl.atomic_xchg(lock_ptr + pid % GROUPS, 0)


@triton.jit
def lock_of_its_own(x_ptr, sum_ptr, lock_ptr):
    """Everybody takes a lock that nobody else wants."""
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * 16 + tl.arange(0, 16))
    while tl.atomic_cas(lock_ptr + pid, 0, 1) == 1:
        pass
    add_under_lock(sum_ptr, x)
    tl.atomic_xchg(lock_ptr + pid, 0)


@triton.jit
def store_after_unlock(x_ptr, sum_ptr, lock_ptr):
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + tl.program_id(0) * 16 + cols)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    total = tl.load(sum_ptr + cols) + x
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(sum_ptr + cols, total)


@triton.jit
def load_before_lock(x_ptr, sum_ptr, lock_ptr):
    cols = tl.arange(0, 16)
    total = tl.load(sum_ptr + cols) + tl.load(x_ptr + tl.program_id(0) * 16 + cols)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr + cols, total)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def relaxed_lock(x_ptr, sum_ptr, lock_ptr):
    x = tl.load(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16))
    while tl.atomic_cas(lock_ptr, 0, 1, sem="relaxed") == 1:
        pass
    add_under_lock(sum_ptr, x)
    tl.atomic_xchg(lock_ptr, 0, sem="relaxed")


@triton.jit
def unlock_by_store(x_ptr, sum_ptr, lock_ptr):
    x = tl.load(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    add_under_lock(sum_ptr, x)
    tl.store(lock_ptr, 0)


@triton.jit
def wait_for(flag_ptr):
    while tl.atomic_cas(flag_ptr, 1, 1) != 1:
        pass


@triton.jit
def chain_of_flags(x_ptr, sum_ptr, lock_ptr):
    """Each program waits for the one before it; every second adds to the sum."""
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * 16 + tl.arange(0, 16))
    if pid > 0:
        wait_for(lock_ptr + pid - 1)
    if pid % 2 == 0:
        add_under_lock(sum_ptr, x)
    tl.atomic_xchg(lock_ptr + pid, 1)


@triton.jit
def broken_chain_of_flags(x_ptr, sum_ptr, lock_ptr):
    """The program in the middle waits for nobody."""
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * 16 + tl.arange(0, 16))
    if (pid > 0) & (pid != 7):
        wait_for(lock_ptr + pid - 1)
    if pid % 2 == 0:
        add_under_lock(sum_ptr, x)
    tl.atomic_xchg(lock_ptr + pid, 1)


@triton.jit
def partial_sum(x_ptr, sum_ptr):
    pid = tl.program_id(0)
    tl.store(sum_ptr + pid, tl.sum(tl.load(x_ptr + pid * 16 + tl.arange(0, 16))))


@triton.jit
def total_of_partial_sums(sum_ptr, N: tl.constexpr):
    i = tl.arange(0, 16)
    partial = tl.load(sum_ptr + i, mask=i < N, other=0.0)
    tl.store(sum_ptr + 100, tl.sum(partial))


@triton.jit
def last_block_counter(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr = 12):
    partial_sum(x_ptr, sum_ptr)
    if tl.atomic_add(lock_ptr, 1) == N - 1:
        total_of_partial_sums(sum_ptr, N)


@triton.jit
def last_block_counter_by_inc(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr = 12):
    """The same, counted down, in a variable, and set back for the next launch."""
    partial_sum(x_ptr, sum_ptr)
    left = tl.atomic_add(lock_ptr, 1, sem="acq_rel")
    is_last = left == N - 1
    if is_last:
        total_of_partial_sums(sum_ptr, N)
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def counter_without_a_look(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr = 12):
    """Counts, but the program with the highest id takes itself for the last."""
    partial_sum(x_ptr, sum_ptr)
    tl.atomic_add(lock_ptr, 1)
    if tl.program_id(0) == N - 1:
        total_of_partial_sums(sum_ptr, N)


@triton.jit
def first_program_without_a_look(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr = 12):
    """Likewise, the one with the lowest."""
    partial_sum(x_ptr, sum_ptr)
    tl.atomic_add(lock_ptr, 1)
    if tl.program_id(0) == 0:
        total_of_partial_sums(sum_ptr, N)


@triton.jit
def no_counter(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr = 12):
    partial_sum(x_ptr, sum_ptr)
    if tl.program_id(0) == N - 1:
        total_of_partial_sums(sum_ptr, N)


@triton.jit
def counter_too_early(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr = 12):
    is_last = tl.atomic_add(lock_ptr, 1) == N - 1
    partial_sum(x_ptr, sum_ptr)
    if is_last:
        total_of_partial_sums(sum_ptr, N)


@triton.jit
def counter_by_load_and_store(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr = 12):
    partial_sum(x_ptr, sum_ptr)
    seen = tl.load(lock_ptr)
    tl.store(lock_ptr, seen + 1)
    if seen == N - 1:
        total_of_partial_sums(sum_ptr, N)
'''

RACY = {
    "load_add_store": "sum_ptr",
    "load_add_store_of_pairs": "sum_ptr",
    "atomic_add_and_load": "sum_ptr",
    "neighbour": "sum_ptr",
    "broken_chain_of_flags": "sum_ptr",
    "lock_of_another_group": "sum_ptr",
    "lock_of_its_own": "sum_ptr",
    "store_after_unlock": "sum_ptr",
    "load_before_lock": "sum_ptr",
    "relaxed_lock": "sum_ptr",
    "unlock_by_store": "lock_ptr",
    "counter_without_a_look": "sum_ptr",
    "first_program_without_a_look": "sum_ptr",
    "no_counter": "sum_ptr",
    "counter_too_early": "sum_ptr",
    "counter_by_load_and_store": "lock_ptr",
}
CLEAN = [
    "row_of_its_own",
    "own_block",
    "atomic_add",
    "lock_by_cas",
    "lock_by_cas_not_zero",
    "lock_by_xchg",
    "lock_in_a_variable",
    "lock_of_a_group",
    "chain_of_flags",
    "last_block_counter",
    "last_block_counter_by_inc",
]
ORDERS = [pytest.param(False, id="as-usual"), pytest.param(True, id="backwards")]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """All kernels of this file."""
    path = tmp_path_factory.mktemp("races") / "submission.py"
    path.write_text(KERNELS)
    return load_module(path, name="submission_of_test_simulator_races")


@pytest.fixture(params=ORDERS)
def any_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs run in their usual order, then in the other one; or the other way round."""
    usual = schedule.run_all

    def run_all(*args: object, backwards: bool = False) -> None:
        usual(*args, backwards=backwards is not request.param)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(schedule, "run_all", functools.wraps(usual)(run_all))


def run(kernels: types.ModuleType, name: str) -> tuple[Log, torch.Tensor, torch.Tensor]:
    """The log, x and the sums of one launch of N programs."""
    x = torch.randn(N, COLS, generator=torch.Generator().manual_seed(0))
    sums = torch.zeros(N + 1, COLS)
    with recording() as log:
        getattr(kernels, name)[(N,)](x, sums, torch.zeros(2 * N, dtype=torch.int32))
    return log, x, sums


def races(log: Log) -> list[Finding]:
    """Findings of kind race."""
    return [finding for finding in log.findings if finding.kind == "race"]


@pytest.mark.usefixtures("any_order")
@pytest.mark.parametrize("name", RACY)
def test_a_race_is_found_in_any_order(kernels: types.ModuleType, name: str) -> None:
    """With the argument, two programs, and what to do."""
    found = races(run(kernels, name)[0])

    assert {f.argument for f in found} >= {RACY[name]}
    assert all("program (" in f.text and f.advice.endswith(".") for f in found)


@pytest.mark.usefixtures("any_order")
@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_kernel_is_not_accused_in_any_order(kernels: types.ModuleType, name: str) -> None:
    """Nothing but the note on atomics of floats."""
    log, x, sums = run(kernels, name)

    assert [f for f in log.findings if f.kind != "note"] == []
    if "lock_by" in name or name == "atomic_add":
        torch.testing.assert_close(sums[0], x.sum(0))
    if "last_block" in name:
        torch.testing.assert_close(sums.view(-1)[100], x.sum())
    if name == "chain_of_flags":
        torch.testing.assert_close(sums[0], x[::2].sum(0))
    if name == "lock_of_a_group":
        torch.testing.assert_close(sums[:4], x.view(3, 4, COLS).sum(0))


@pytest.mark.parametrize("name", ["lock_by_cas", "counter_without_a_look", "last_block_counter"])
def test_the_other_order_leaves_no_trace(kernels: types.ModuleType, name: str) -> None:
    """Memory, traffic and loops are those of one run."""
    log, x, sums = run(kernels, name)

    (launch,) = log.launches
    assert launch.arguments["x_ptr"].read == x.numel()
    fresh = torch.zeros_like(sums)
    getattr(kernels, name)[(N,)](x, fresh, torch.zeros(2 * N, dtype=torch.int32))
    assert torch.equal(sums, fresh)


def sync(
    clocks: dict[tuple[int, int], int],
) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Atomics of one buffer from (word, program) to clock."""
    words, programs = np.array(list(clocks)).T
    return [(0, words, programs, np.array(list(clocks.values())))]


@pytest.mark.parametrize(
    ("clocks", "is_ordered"),
    [
        # program 0 accesses at 10, program 1 at 20
        pytest.param({(0, 0): 11, (0, 1): 19}, True, id="released-then-acquired"),
        pytest.param({(0, 0): 9, (0, 1): 19}, False, id="released-too-early"),
        pytest.param({(0, 0): 11, (0, 1): 21}, False, id="acquired-too-late"),
        pytest.param({(0, 0): 19, (0, 1): 11}, False, id="acquired-before-released"),
        pytest.param({(0, 0): 11, (1, 1): 19}, False, id="another-word"),
        pytest.param({(0, 0): 11, (1, 0): 12, (1, 1): 19}, True, id="the-second-word"),
        # program 2 stands between them
        pytest.param({(0, 0): 11, (0, 2): 12, (1, 2): 13, (1, 1): 14}, True, id="a-chain"),
        pytest.param({(0, 0): 11, (0, 2): 13, (1, 2): 12, (1, 1): 14}, False, id="no-chain"),
        pytest.param({(0, 0): 11, (0, 2): 12, (1, 2): 13, (2, 1): 14}, False, id="broken-chain"),
        pytest.param({(0, 0): 9, (0, 2): 12, (1, 2): 13, (1, 1): 14}, False, id="begun-too-early"),
    ],
)
def test_what_orders_two_accesses(clocks: dict[tuple[int, int], int], *, is_ordered: bool) -> None:
    """An atomic of the first after its access, of the second before its own, on one word."""
    missing = Order(sync(clocks)).missing(np.array([[0, 10]]), np.array([[1, 20]]))

    assert missing.tolist() == [not is_ordered]


def test_no_number_of_pairs_is_too_many() -> None:
    """Of 50,000 pairs, of which only the last is not ordered, just that one is missing.

    Program p accesses at 4 p and releases word p at 4 p + 1; program p + 1 acquires it at 4 p + 2.
    """
    n = 50_000
    clocks = {(p, p): 4 * p + 1 for p in range(n)} | {(p, p + 1): 4 * p + 2 for p in range(n - 1)}
    first = np.stack([np.arange(n), 4 * np.arange(n)], axis=1)

    missing = Order(sync(clocks)).missing(first, first + np.array([1, 4]))

    assert np.flatnonzero(missing).tolist() == [n - 1]


def test_many_racing_programs_are_all_counted(tmp_path: Path) -> None:
    """30,000 programs, each with a counter of its own; two of them add to each of 15,000 elements."""
    path = tmp_path / "submission.py"
    path.write_text(
        KERNELS[: KERNELS.index("@triton.jit")]
        + """
@triton.jit
def kernel(sum_ptr, counter_ptr):
    pid = tl.program_id(0)
    tl.atomic_add(counter_ptr + pid, 1)
    tl.store(sum_ptr + pid // 2, tl.load(sum_ptr + pid // 2) + 1)
"""
    )
    n = 30_000
    with recording() as log:
        load_module(path, name="submission_of_many_programs").kernel[(n,)](
            torch.zeros(n // 2), torch.zeros(n, dtype=torch.int32)
        )

    # read against write, and write against write, each in all elements; equal values are a note
    assert {f.count for f in races(log)} == {n // 2}


REDUNDANT = '''
@triton.jit
def rows(x_ptr, out_ptr, AXIS: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(AXIS) * 16 + tl.arange(0, 16)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + 1)


@triton.jit
def rows_and_flag(x_ptr, out_ptr, AXIS: tl.constexpr, N: tl.constexpr):
    """Only the flag is written by all."""
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(x_ptr + i, 2.0)
    tl.store(out_ptr, 1.0)


@triton.jit
def overlapping_tail(x_ptr, out_ptr, AXIS: tl.constexpr, N: tl.constexpr):
    """The last block is moved back to end with the data, so that no mask is needed."""
    i = tl.minimum(tl.program_id(0) * 16, N - 16) + tl.arange(0, 16)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + 1)
'''


@pytest.fixture
def redundant(tmp_path: Path) -> types.ModuleType:
    """The kernels above."""
    path = tmp_path / "submission.py"
    path.write_text(KERNELS[: KERNELS.index("@triton.jit")] + REDUNDANT)
    return load_module(path, name="submission_of_redundant_launches")


@pytest.mark.parametrize(
    ("axis", "grid", "repeated"),
    [
        pytest.param(0, (4, 3), 1, id="second-axis"),
        pytest.param(1, (3, 4), 0, id="first-axis"),
        pytest.param(2, (1, 3, 4), 1, id="between"),
    ],
)
def test_a_launch_that_repeats_itself_is_noted_once(
    redundant: types.ModuleType, axis: int, grid: tuple[int, ...], repeated: int
) -> None:
    """The axis is named, and how often the work is done."""
    x, out = torch.randn(64), torch.zeros(64)
    with recording() as log:
        redundant.rows[grid](x, out, axis, 64)

    (note,) = log.findings
    assert (note.kind, note.argument) == ("note", "out_ptr")
    assert f"all 3 programs along axis {repeated} of the grid" in note.text
    assert "3 times" in note.text
    assert f"tl.program_id({repeated})" in note.advice


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        pytest.param("rows_and_flag", (4,), id="one-of-two-outputs"),
        pytest.param("overlapping_tail", (4,), id="some-elements"),
    ],
)
def test_elements_written_twice_are_no_redundant_launch(
    redundant: types.ModuleType, name: str, grid: tuple[int, ...]
) -> None:
    """Equal values from several programs get the smaller note."""
    with recording() as log:
        getattr(redundant, name)[grid](torch.randn(64), torch.zeros(64), 0, 60)

    (note,) = log.findings
    assert (note.kind, note.argument) == ("note", "out_ptr")
    assert "both write the same value" in note.text


def test_a_grid_whose_programs_all_differ_gets_no_note(redundant: types.ModuleType) -> None:
    """One axis, and each program its own block."""
    with recording() as log:
        redundant.rows[(4, 1)](torch.randn(64), torch.zeros(64), 0, 64)

    assert log.findings == []
