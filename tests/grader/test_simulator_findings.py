"""Every kind of finding but races: kernels that must show it, and near misses that must not.

Races, notes on masked lanes and on redundant launches have files of their own.
"""

from __future__ import annotations

import types
from pathlib import Path

import pytest
import torch

from grader.simulator import DeadlockError, Finding, load_module, recording

N = 21  # elements; in blocks of 8, so the last one is cut

KERNELS = '''
import torch
import triton
import triton.language as tl


@triton.jit
def no_mask(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=i < n)


@triton.jit
def no_mask_on_the_store(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n))


@triton.jit
def mask_one_too_far(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + i, mask=i <= n)
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def mask_of_other_offsets(x_ptr, out_ptr, n):
    """The mask looks at the lane, not at the element."""
    lane = tl.arange(0, 8)
    i = tl.program_id(0) * 8 + lane
    x = tl.load(x_ptr + i, mask=lane < n)
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def before_the_first(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + i - 1, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def atomic_outside(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.atomic_add(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0))


@triton.jit
def block_pointer_unchecked(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(tl.make_block_ptr(x_ptr, (n,), (1,), (tl.program_id(0) * 8,), (8,), (0,)))
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def masked(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def wraps_around(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + i % n), mask=i < n)


@triton.jit
def held_back(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + tl.minimum(i, n - 1)), mask=i < n)


@triton.jit
def after_the_first(x_ptr, out_ptr, n):
    """The lane before the first element is masked."""
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + i - 1, mask=(i > 0) & (i <= n), other=0.0)
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def block_pointer_checked(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (tl.program_id(0) * 8,), (8,), (0,))
    x = tl.load(block, boundary_check=(0,), padding_option="zero")
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def first_blocks(x_ptr, out_ptr, n):
    """The mask drops the cut block as a whole."""
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    inside = (tl.program_id(0) + 1) * 8 <= n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=inside & (i < n)), mask=inside & (i < n))


@triton.jit
def every_second(x_ptr, out_ptr, n):
    i = (tl.program_id(0) * 8 + tl.arange(0, 8)) * 2
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def accumulate(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.load(out_ptr + i, mask=i < n) + x, mask=i < n)


@triton.jit
def accumulate_atomically(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.atomic_add(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def exchange(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.atomic_xchg(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def store_then_load(x_ptr, out_ptr, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
    tl.store(out_ptr + i, tl.load(out_ptr + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def never_unlocked(lock_ptr, n):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass


@triton.jit
def unlocked_by_some(lock_ptr, n):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.program_id(0) != 1:
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def flag_nobody_sets(lock_ptr, n):
    if tl.program_id(0) == 0:
        while tl.atomic_cas(lock_ptr, 1, 1) != 1:
            pass


@triton.jit
def counts_too_far(lock_ptr, n):
    """Waits for one program more than there are."""
    tl.atomic_add(lock_ptr, 1)
    while tl.atomic_cas(lock_ptr, n + 1, 0) != n + 1:
        pass


@triton.jit
def unlocked(lock_ptr, n):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def flag_of_the_first(lock_ptr, n):
    """The first program sets a flag that all others wait for."""
    if tl.program_id(0) == 0:
        tl.atomic_xchg(lock_ptr, 1)
    else:
        while tl.atomic_cas(lock_ptr, 1, 1) != 1:
            pass


@triton.jit
def polls_a_flag(lock_ptr, n):
    """Reads by adding 0; those that wait come first here."""
    if tl.program_id(0) == 0:
        tl.atomic_xchg(lock_ptr, 1)
    else:
        while tl.atomic_add(lock_ptr, 0) == 0:
            pass


@triton.jit
def counts_nothing(lock_ptr, n):
    """A counter that stays 0 for thousands of turns; nobody waits."""
    for k in range(4000):
        tl.atomic_add(lock_ptr, k // 4000)


@triton.jit
def clears_words(lock_ptr, n):
    """Exchanges of zeros against zeros, of one word after the other."""
    for k in range(300):
        tl.atomic_xchg(lock_ptr + k % 4, 0)


@triton.jit
def in_turn(lock_ptr, n):
    """Each program waits for the one with the next higher id."""
    turn = n - 1 - tl.program_id(0)
    while tl.atomic_cas(lock_ptr, turn, turn) != turn:
        pass
    tl.atomic_add(lock_ptr, 1)
'''


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """All kernels of this file."""
    path: Path = tmp_path_factory.mktemp("findings") / "submission.py"
    path.write_text(KERNELS)
    return load_module(path, name="submission_of_test_simulator_findings")


def run(
    kernels: types.ModuleType, name: str, out: torch.Tensor | None = None, n: int = N
) -> list[Finding]:
    """Findings of one launch of as many programs as n asks for."""
    with recording() as log:
        # in the block: outside of it torch.empty is just memory
        given = torch.empty(N) if out is None else out
        getattr(kernels, name)[((n + 7) // 8,)](torch.ones(N), given, n)
        log.check_written(given, "y")
    return log.findings


@pytest.mark.parametrize(
    ("name", "argument", "program", "index"),
    [
        ("no_mask", "x_ptr", (2, 0, 0), (21,)),
        ("no_mask_on_the_store", "out_ptr", (2, 0, 0), (21,)),
        ("mask_one_too_far", "x_ptr", (2, 0, 0), (21,)),
        ("mask_of_other_offsets", "x_ptr", (2, 0, 0), (21,)),
        ("before_the_first", "x_ptr", (0, 0, 0), (-1,)),
        ("atomic_outside", "out_ptr", (2, 0, 0), (21,)),
        ("block_pointer_unchecked", "x_ptr", (2, 0, 0), (21,)),
    ],
)
def test_out_of_bounds(
    kernels: types.ModuleType,
    name: str,
    argument: str,
    program: tuple[int, int, int],
    index: tuple[int, ...],
) -> None:
    """Line, kernel, program, argument, index, and what to do; that depends on there being a mask."""
    found = [f for f in run(kernels, name, torch.zeros(N)) if f.kind == "out_of_bounds"]

    (finding,) = found
    assert (finding.kernel, finding.argument, finding.program, finding.index) == (
        name,
        argument,
        program,
        index,
    )
    assert finding.source_line in KERNELS
    assert ("Give tl." in finding.advice) == ("NO mask" in finding.text)
    assert finding.advice.endswith(".")


@pytest.mark.parametrize(
    "name",
    ["masked", "wraps_around", "held_back", "after_the_first", "block_pointer_checked"],
)
def test_in_bounds(kernels: types.ModuleType, name: str) -> None:
    """Pointers may lie outside, as long as the mask leaves those lanes out."""
    assert run(kernels, name, torch.zeros(N)) == []


@pytest.mark.parametrize("name", ["accumulate", "accumulate_atomically"])
def test_reads_of_memory_nobody_wrote(kernels: types.ModuleType, name: str) -> None:
    """Adding to torch.empty, also atomically; zeros are fine."""
    (finding,) = [f for f in run(kernels, name) if f.kind == "uninitialised_read"]

    assert (finding.argument, finding.program, finding.index, finding.count) == (
        "out_ptr",
        (0, 0, 0),
        (0,),
        N,
    )
    assert "torch.zeros" in finding.advice
    assert [f for f in run(kernels, name, torch.zeros(N)) if f.kind != "note"] == []


@pytest.mark.parametrize("name", ["masked", "store_then_load", "exchange"])
def test_memory_is_written_before_it_is_read(kernels: types.ModuleType, name: str) -> None:
    """By a store, or by an exchange."""
    assert run(kernels, name) == []


@pytest.mark.parametrize(
    ("name", "n", "index", "count"),
    [
        pytest.param("masked", 16, (16,), 5, id="grid-and-mask-too-small"),
        pytest.param("first_blocks", N, (16,), 5, id="last-block-dropped"),
        pytest.param("every_second", N, (1,), 10, id="every-second"),
    ],
)
def test_never_written(
    kernels: types.ModuleType, name: str, n: int, index: tuple[int, ...], count: int
) -> None:
    """The first of them, how many, and the kernel that wrote the others."""
    (finding,) = run(kernels, name, n=n)

    assert finding.kind == "never_written"
    assert (finding.kernel, finding.argument, finding.index, finding.count) == (
        name,
        "y",
        index,
        count,
    )
    assert "mask of the store" in finding.advice


@pytest.mark.parametrize(
    ("name", "out"),
    [
        pytest.param("masked", None, id="all-by-the-kernel"),
        pytest.param("every_second", torch.zeros(N), id="the-others-by-torch"),
    ],
)
def test_all_is_written(kernels: types.ModuleType, name: str, out: torch.Tensor | None) -> None:
    """By the kernel, or by torch what the kernel leaves out."""
    assert run(kernels, name, out) == []


@pytest.mark.parametrize(
    "name",
    [
        "never_unlocked",
        "unlocked_by_some",
        "flag_nobody_sets",
        "counts_too_far",
    ],
)
def test_deadlock(kernels: types.ModuleType, name: str) -> None:
    """The line where programs wait, in the exception and in the log."""
    with recording() as log, pytest.raises(DeadlockError, match="programs wait here"):
        getattr(kernels, name)[(5,)](torch.zeros(4, dtype=torch.int32), 5)

    (finding,) = log.findings
    assert (finding.kind, finding.kernel) == ("deadlock", name)
    assert finding.source_line.startswith("while tl.atomic_")
    assert "release it" in finding.advice


@pytest.mark.parametrize(
    "name",
    ["unlocked", "flag_of_the_first", "in_turn", "polls_a_flag", "counts_nothing", "clears_words"],
)
def test_waiting_that_ends(kernels: types.ModuleType, name: str) -> None:
    """Whichever programs the simulator takes first."""
    with recording() as log:
        getattr(kernels, name)[(5,)](torch.zeros(4, dtype=torch.int32), 5)

    assert log.findings == []
