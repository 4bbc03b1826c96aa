"""One storage that a kernel sees as two dtypes: races and unwritten elements are those of the memory."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
import torch

from grader.simulator import Finding, load_module, recording

N = 32
KERNELS = """
import triton
import triton.language as tl


@triton.jit
def own(write_ptr, read_ptr, A: tl.constexpr, B: tl.constexpr, SHIFT: tl.constexpr):
    # each of 4 programs writes a quarter, and reads the quarter SHIFT programs further
    pid = tl.program_id(0)
    i = tl.arange(0, A)
    tl.store(write_ptr + pid * A + i, i + pid)
    j = tl.arange(0, B)
    x = tl.load(read_ptr + (pid + SHIFT) % 4 * B + j)
    tl.device_assert(x == x)


@triton.jit
def both_write(one_ptr, two_ptr, A: tl.constexpr, B: tl.constexpr, SHIFT: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, A)
    tl.store(one_ptr + pid * A + i, i + pid + 1)
    j = tl.arange(0, B)
    tl.store(two_ptr + (pid + SHIFT) % 4 * B + j, j * 0)


@triton.jit
def copy(from_ptr, to_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(to_ptr + i, tl.load(from_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def write_then_read(write_ptr, read_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, A), tl.arange(0, B)
    tl.store(write_ptr + i, i)
    tl.store(out_ptr + j, tl.load(read_ptr + j))
"""
WIDTHS = [torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """The kernels above, loaded."""
    path: Path = tmp_path_factory.mktemp("submission") / "shared.py"
    path.write_text(KERNELS)
    return load_module(path, name="kernels_of_test_simulator_shared_storage")


def found(
    kernels: types.ModuleType, name: str, first: torch.dtype, second: torch.dtype, shift: int
) -> list[Finding]:
    """What a kernel on 128 bytes, seen as two dtypes, shows."""
    x = torch.zeros(N, dtype=torch.int32)
    one, two = x.view(first), x.view(second)
    with recording() as log:
        getattr(kernels, name)[(4,)](one, two, one.numel() // 4, two.numel() // 4, shift)
    return log.findings


@pytest.mark.parametrize("first", WIDTHS)
@pytest.mark.parametrize("second", WIDTHS)
def test_programs_that_keep_to_their_own_memory(
    kernels: types.ModuleType, first: torch.dtype, second: torch.dtype
) -> None:
    """Whatever the widths: no false accusation."""
    assert found(kernels, "own", first, second, shift=0) == []
    assert found(kernels, "both_write", first, second, shift=0) == []


@pytest.mark.parametrize("first", WIDTHS)
@pytest.mark.parametrize("second", WIDTHS)
def test_programs_that_meet_in_memory(
    kernels: types.ModuleType, first: torch.dtype, second: torch.dtype
) -> None:
    """One byte shift is enough; named by the argument and the index that the later access has."""
    (read,) = found(kernels, "own", first, second, shift=1)
    (written,) = found(kernels, "both_write", first, second, shift=1)

    assert read.kind == written.kind == "race"
    names = {"write_ptr", "read_ptr"} if first is not second else {"write_ptr"}
    assert read.argument in {"write_ptr", "read_ptr"}
    assert first is second or all(name in read.text for name in names)
    # all of the memory is shared; elements are counted in the earlier access's dtype
    assert {read.count, written.count} <= {128 // first.itemsize, 128 // second.itemsize}


def test_memory_is_put_back_before_it_is_run_again(kernels: types.ModuleType) -> None:
    """Races are looked into by running again: the sum of a launch is added once all the same."""
    x = torch.arange(N, dtype=torch.float32)
    with recording() as log:
        kernels.copy[(4,)](x, x.view(torch.int32), N)
    # float bits stored as integers of the same value
    assert x.view(torch.int32).tolist() == list(range(N))
    assert log.findings == []


@pytest.mark.parametrize("first", WIDTHS)
@pytest.mark.parametrize("second", WIDTHS)
def test_what_was_written_as_another_dtype_was_written(
    kernels: types.ModuleType, first: torch.dtype, second: torch.dtype
) -> None:
    """All bytes of torch.empty, in the same launch."""
    with recording() as log:
        x = torch.empty(N, dtype=torch.int32)
        one, two = x.view(first), x.view(second)
        kernels.write_then_read[(1,)](one, two, torch.zeros_like(two), one.numel(), two.numel())
        log.check_written(x, "x")
    assert log.findings == []


def test_what_was_not_written_is_found_through_a_dtype_of_the_same_width(
    kernels: types.ModuleType,
) -> None:
    """Half of the elements written as float32, all read as int32."""
    with recording() as log:
        x = torch.empty(N)
        out = torch.zeros(N, dtype=torch.int32)
        kernels.write_then_read[(1,)](x, x.view(torch.int32), out, N // 2, N)
    (finding,) = log.findings
    assert (finding.kind, finding.index) == ("uninitialised_read", (N // 2,))
    assert finding.count == N // 2
