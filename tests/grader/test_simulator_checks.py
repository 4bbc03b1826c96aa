"""What the simulator finds: bounds, unwritten memory, races and deadlocks; and what it must not."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from grader.simulator import DeadlockError, Finding, counts, load_module, recording

HEADER = "import torch\nimport triton\nimport triton.language as tl\n"
Load = Callable[[str], types.ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a submission from its text."""

    def loader(source: str) -> types.ModuleType:
        path = tmp_path / "submission.py"
        path.write_text(HEADER + textwrap.dedent(source))
        return load_module(path, name="submission_of_test_simulator_checks")

    return loader


def kinds(findings: list[Finding]) -> list[tuple[str, str]]:
    """Which kinds were found on which arguments."""
    return sorted({(f.kind, f.argument) for f in findings})


ROW_COPY = """
@triton.jit
def kernel(x_ptr, out_ptr, x_row_stride, out_row_stride, n_cols, MASKED: tl.constexpr,
           BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    if MASKED:
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=cols < n_cols, other=0.0)
    else:
        x = tl.load(x_ptr + row * x_row_stride + cols)
    tl.store(out_ptr + row * out_row_stride + cols, x, mask=cols < n_cols)
"""


def padded(rows: int, cols: int, padding: int) -> torch.Tensor:
    """Zeros in rows that are followed by NaN."""
    return torch.full((rows, cols + padding), float("nan"))[:, :cols].fill_(0)


def test_a_missing_mask_is_found_in_the_first_program(load: Load, tmp_path: Path) -> None:
    """Padded rows make the overrun of row 0 visible; it reads what lies there, NaN."""
    x, out = padded(3, 5, 11), torch.zeros(3, 8)

    with recording() as log:
        load(ROW_COPY).kernel[(3,)](x, out, 16, 8, 8, False, 8)

    (finding,) = log.findings
    assert finding.kind == "out_of_bounds"
    assert (finding.kernel, finding.program) == ("kernel", (0, 0, 0))
    assert (finding.argument, finding.index) == ("x_ptr", (0, 5))
    assert (finding.file, finding.line) == (str(tmp_path / "submission.py"), 13)
    assert finding.source_line == "x = tl.load(x_ptr + row * x_row_stride + cols)"
    assert "NO mask" in finding.text
    assert finding.count == 9
    assert out[0, 5:].isnan().all()


def test_masked_access_to_a_padded_view_is_clean(load: Load) -> None:
    """The pad itself is never touched."""
    x, out = padded(3, 5, 11), torch.zeros(3, 5)

    with recording() as log:
        load(ROW_COPY).kernel[(3,)](x, out, 16, 5, 5, True, 8)

    assert log.findings == []
    assert torch.equal(x, out)


def test_a_store_out_of_bounds_is_dropped(load: Load) -> None:
    """The neighbour of a view in the same storage keeps its value; a wrong mask is named."""
    storage = torch.full((3, 8), 7.0)
    out = storage[:, :5]

    with recording() as log:
        load(ROW_COPY).kernel[(3,)](torch.zeros(3, 8), out, 8, 8, 6, True, 8)

    assert storage[:, 5:].eq(7).all()
    assert storage[:, :5].eq(0).all()
    (finding,) = log.findings
    assert (finding.argument, finding.index) == ("out_ptr", (0, 5))
    assert "a mask was given" in finding.text


def test_reads_beyond_the_storage_are_nan(load: Load) -> None:
    """And nothing crashes, however far away."""
    module = load(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, far):
            i = tl.arange(0, 4)
            tl.store(out_ptr + i, tl.load(x_ptr + far + i))
        """
    )
    out = torch.zeros(4)

    with recording() as log:
        module.kernel[(1,)](torch.zeros(4), out, 10**9)

    assert out.isnan().all()
    assert kinds(log.findings) == [("out_of_bounds", "x_ptr")]


@pytest.mark.parametrize("layout", ["expanded", "transposed", "offset"])
def test_views_are_exactly_their_own_elements(load: Load, layout: str) -> None:
    """Any strided CPU tensor can be an argument."""
    base = torch.arange(100.0)
    views = {
        "expanded": base[:4].expand(4, 4),
        "transposed": base[:16].view(4, 4).T,
        "offset": base[50:66].view(4, 4),
    }
    x, out = views[layout], torch.zeros(4, 4)
    module = load(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, s0, s1):
            i = tl.arange(0, 4)
            x = tl.load(x_ptr + i[:, None] * s0 + i[None, :] * s1)
            tl.store(out_ptr + i[:, None] * 4 + i[None, :], x)
        """
    )

    with recording() as log:
        module.kernel[(1,)](x, out, *x.stride())
        assert log.findings == []
        module.kernel[(1,)](x[1:] if layout != "expanded" else x[:, 1:], out, *x.stride())

    assert kinds(log.findings) == [("out_of_bounds", "x_ptr")]


UNWRITTEN = """
@triton.jit
def kernel(x_ptr, out_ptr, n):
    i = tl.arange(0, 8)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x, mask=i < n)

def call(x, n):
    out = torch.empty(8)
    kernel[(1,)](x, out, n)
    return out
"""


def test_reading_what_nobody_wrote(load: Load) -> None:
    """torch.empty is poison until a kernel or torch writes it."""
    module = load(UNWRITTEN)

    with recording() as log:
        scratch = module.call(torch.ones(8), 6)
        module.call(scratch[None].view(8).requires_grad_(), 8)

    (finding,) = log.findings
    assert finding.kind == "uninitialised_read"
    assert (finding.argument, finding.index, finding.count) == ("x_ptr", (6,), 2)


def test_memory_that_torch_wrote_is_written(load: Load) -> None:
    """Also through a view; where torch counts writes apart, it is trusted."""
    module = load(UNWRITTEN)

    with recording() as log:
        scratch = torch.empty(2, 8)
        scratch[1].zero_()
        module.call(scratch[1], 8)
        module.call(torch.empty(8).fill_(1.0), 8)
        scratch = torch.empty(8)
        scratch.data[3:].zero_()
        module.call(scratch, 8)

    assert log.findings == []


def test_outputs_that_were_never_written(load: Load) -> None:
    """Checked for the tensors a call returns."""
    module = load(UNWRITTEN)

    with recording() as log:
        whole = module.call(torch.ones(8), 8)
        part = module.call(torch.ones(8), 6)
    log.check_written(whole, "y")
    assert log.findings == []
    log.check_written(part, "y")

    (finding,) = log.findings
    assert (finding.kind, finding.argument, finding.index) == ("never_written", "y", (6,))
    assert finding.kernel == "kernel"
    assert finding.count == 2


COLUMN_SUM = """
@triton.jit
def racy(x_ptr, sum_ptr, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK_N + cols)
    total = tl.load(sum_ptr + cols)
    tl.store(sum_ptr + cols, total + x)

@triton.jit
def atomic(x_ptr, sum_ptr, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK_N + cols)
    tl.atomic_add(sum_ptr + cols, x)

@triton.jit
def mixed(x_ptr, sum_ptr, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK_N + cols)
    tl.atomic_add(sum_ptr + cols, x)
    tl.load(sum_ptr + cols)
"""


def test_load_add_store_from_every_program_is_a_race(load: Load, tmp_path: Path) -> None:
    """Both lines and programs are named; the lost update shows in the values too."""
    x, total = torch.randn(6, 16), torch.zeros(16)

    with recording() as log:
        load(COLUMN_SUM).racy[(6,)](x, total, 16)

    assert kinds(log.findings) == [("race", "sum_ptr")]
    finding = next(f for f in log.findings if f.line == 10)
    assert finding.file == str(tmp_path / "submission.py")
    assert finding.count == 32  # each of 16 elements is read and written by others
    assert "line 9" in finding.text or "line 10" in finding.text
    assert finding.source_line == "tl.store(sum_ptr + cols, total + x)"


def test_atomics_do_not_race(load: Load) -> None:
    """They get a note, since the order of float additions is not fixed."""
    x, total = torch.randn(6, 16), torch.zeros(16)

    with recording() as log:
        load(COLUMN_SUM).atomic[(6,)](x, total, 16)

    assert kinds(log.findings) == [("note", "sum_ptr")]
    torch.testing.assert_close(total, x.sum(0))


def test_atomics_mixed_with_plain_access_race(load: Load) -> None:
    """A plain read beside another program's atomic."""
    with recording() as log:
        load(COLUMN_SUM).mixed[(6,)](torch.randn(6, 16), torch.zeros(16), 16)

    assert ("race", "sum_ptr") in kinds(log.findings)


IN_PLACE = """
@triton.jit
def scale(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)

@triton.jit
def shift(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i + 1))

@triton.jit
def same_value(flag_ptr):
    tl.store(flag_ptr, 1.0)

@triton.jit
def own_value(flag_ptr):
    tl.store(flag_ptr, tl.program_id(0).to(tl.float32))
"""


def test_in_place_kernels_are_clean_unless_they_cross_over(load: Load) -> None:
    """Each program on its own elements; reading the neighbour's first element is a race."""
    module = load(IN_PLACE)
    x = torch.arange(65.0)

    with recording() as clean:
        module.scale[(8,)](x, 8)
    with recording() as racy:
        module.shift[(8,)](x, 8)

    assert clean.findings == []
    assert clean.launches[0].arguments["x_ptr"].read == 64
    assert x[64].item() == 64
    assert kinds(racy.findings) == [("race", "x_ptr")]


def test_equal_values_written_by_all_are_a_note(load: Load) -> None:
    """Setting a flag from every program is harmless; different values are not."""
    module = load(IN_PLACE)

    with recording() as equal:
        module.same_value[(8,)](torch.zeros(1))
    with recording() as different:
        module.own_value[(8,)](torch.zeros(1))

    assert kinds(equal.findings) == [("note", "flag_ptr")]
    assert kinds(different.findings) == [("race", "flag_ptr")]


LOCKS = """
@triton.jit
def locked_sum(x_ptr, sum_ptr, lock_ptr, RELEASE: tl.constexpr, LATE: tl.constexpr):
    cols = tl.arange(0, 16)
    x = tl.load(x_ptr + tl.program_id(0) * 16 + cols)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    total = tl.load(sum_ptr + cols) + x
    if not LATE:
        tl.store(sum_ptr + cols, total)
    tl.debug_barrier()
    if RELEASE:
        tl.atomic_xchg(lock_ptr, 0)
    if LATE:
        tl.store(sum_ptr + cols, total)

@triton.jit
def last_one_sums(x_ptr, partial_ptr, counter_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, 16)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + pid * 16 + cols)))
    if COUNT:
        is_last = tl.atomic_add(counter_ptr, 1) == N - 1
    else:
        is_last = pid == N - 1
    if is_last:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, N))))
"""


def test_a_spin_lock_orders_programs(load: Load) -> None:
    """Load, add and store under a lock: right sum, no race."""
    x, total = torch.randn(12, 16), torch.zeros(16)

    with recording() as log:
        load(LOCKS).locked_sum[(12,)](x, total, torch.zeros(1, dtype=torch.int32), True, False)

    torch.testing.assert_close(total, x.sum(0))
    assert log.findings == []


def test_a_store_after_the_unlock_is_a_race(load: Load) -> None:
    """The lock is there, but one access lies outside."""
    x, total = torch.randn(12, 16), torch.zeros(16)

    with recording() as log:
        load(LOCKS).locked_sum[(12,)](x, total, torch.zeros(1, dtype=torch.int32), True, True)

    assert ("race", "sum_ptr") in kinds(log.findings)


def test_a_lock_never_released_is_a_deadlock(load: Load) -> None:
    """The first program passes, all others wait forever; line and log survive."""
    x, total = torch.randn(12, 16), torch.zeros(16)

    with recording() as log, pytest.raises(DeadlockError, match=r"submission\.py:9"):
        load(LOCKS).locked_sum[(12,)](x, total, torch.zeros(1, dtype=torch.int32), False, False)

    assert [f.kind for f in log.findings] == ["deadlock"]
    assert log.findings[0].line == 9
    assert len(log.launches) == 1


@pytest.mark.parametrize("counted", [True, False])
def test_the_last_program_may_read_all_partial_sums(load: Load, counted: bool) -> None:
    """If an atomic counter says that it is the last; the highest program id does not."""
    x, out = torch.randn(16, 16), torch.zeros(1)
    counter = torch.zeros(1, dtype=torch.int32)

    with recording() as log:
        partial = torch.empty(16)
        load(LOCKS).last_one_sums[(16,)](x, partial, counter, out, 16, counted)

    races = [f for f in log.findings if f.kind == "race"]
    assert bool(races) != counted
    if counted:
        torch.testing.assert_close(out[0], x.sum())
        assert log.findings == []


def test_findings_repeat_as_a_count(load: Load) -> None:
    """One finding per kind, line and argument, also over several launches."""
    module = load(ROW_COPY)

    with recording() as log:
        for _ in range(3):
            module.kernel[(3,)](padded(3, 5, 11), torch.zeros(3, 8), 16, 8, 8, False, 8)

    (finding,) = log.findings
    assert finding.count == 27


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("address", [0, 8, 64])
def test_sectors_equal_brute_force(itemsize: int, address: int) -> None:
    """Any pattern of lanes: distinct 32-byte pieces per program, summed."""
    rng = np.random.default_rng(itemsize + address)
    rows, cols = np.arange(4)[:, None], np.arange(8)[None, :]
    patterns = [
        rng.integers(0, 300, (5, 4, 8)),
        rng.integers(0, 300, (5, 16)),
        rng.integers(0, 3, (5, 1, 1)) * 7 + rows * 33 + cols,
        rng.integers(0, 3, (5, 1, 1)) * 7 + rows + cols * 50,
        np.zeros((1, 8), np.int64),
        np.arange(5)[:, None] * 16 + np.arange(16),
    ]
    for index in patterns:
        for mask in (None, rng.random(index.shape) < 0.5, np.zeros(index.shape, np.bool_)):
            lanes = np.ones(index.shape, np.bool_) if mask is None else mask
            want = sum(
                len({(address + int(i) * itemsize) // 32 for i in row[active]})
                for row, active in zip(index, lanes, strict=True)
            )
            assert counts.count_sectors(index, mask, itemsize, address) == want


@pytest.mark.parametrize("address", [0, 16])
def test_sectors_of_a_run_equal_brute_force(address: int) -> None:
    """Programs that touch one ascending run, some of them nothing."""
    lanes = np.array([5, 0, 16, 8, 1, 0, 3])
    ends = 11 + np.cumsum(lanes)
    want = sum(
        len({(address + i * 4) // 32 for i in range(end - n, end)})
        for end, n in zip(ends.tolist(), lanes.tolist(), strict=True)
    )

    assert counts.count_run(11, lanes, 4, address) == want
