"""Occupancy by hand: the course notes' exercise, and each limit in turn."""

from __future__ import annotations

import pytest

from grader.compiler.occupancy import LIMITS, Occupancy, occupancy

KIB = 1024


@pytest.mark.parametrize(
    ("arch", "n_threads", "registers", "shared_bytes", "want"),
    [
        # 160 x 128 = 20480 registers a block, 65536 / 20480 = 3.2; 3 x 4 of 64 warps
        pytest.param(90, 128, 160, 0, Occupancy(3, 18.75, "registers"), id="notes-section-1.2"),
        # registers 65536 / 24576 = 2.7, shared memory 228 / 49 = 4.7, threads 2048 / 256 = 8
        pytest.param(90, 256, 96, 48 * KIB, Occupancy(2, 25.0, "registers"), id="notes-exercise-2"),
        # with 32 registers there would be 8 blocks, shared memory allows 4 of 8 warps
        pytest.param(90, 256, 32, 48 * KIB, Occupancy(4, 50.0, "shared memory"), id="shared"),
        # the block's own 1 KiB comes on top: 164 / 82 = 2, but 164 / 83 = 1.98
        pytest.param(80, 128, 32, 81 * KIB, Occupancy(2, 12.5, "shared memory"), id="two-fit"),
        pytest.param(80, 128, 32, 82 * KIB, Occupancy(1, 6.25, "shared memory"), id="one-fits"),
        pytest.param(90, 256, 32, 0, Occupancy(8, 100.0, "warps"), id="full"),
        # 48 warps instead of 64: 6 blocks of 8
        pytest.param(89, 256, 32, 0, Occupancy(6, 100.0, "warps"), id="smaller-sm"),
        # a block of one warp: 32 blocks, half of the 64 warps
        pytest.param(90, 32, 32, 0, Occupancy(32, 50.0, "blocks"), id="blocks"),
        pytest.param(86, 32, 32, 0, Occupancy(16, 100 / 3, "blocks"), id="fewer-blocks"),
        # 33 registers take 5 units of 256 a warp, not 4.125: 65536 / 1280 = 51, in fours 48
        pytest.param(90, 128, 33, 0, Occupancy(12, 75.0, "registers"), id="rounded-up"),
        # 255 x 1024 registers are four times what there is
        pytest.param(90, 1024, 255, 0, Occupancy(0, 0.0, "registers"), id="cannot-run"),
    ],
)
def test_occupancy(
    arch: int, n_threads: int, registers: int, shared_bytes: int, want: Occupancy
) -> None:
    """Blocks, per cent and what allows no more."""
    got = occupancy(
        LIMITS[arch], n_threads=n_threads, registers=registers, shared_bytes=shared_bytes
    )

    assert (got.blocks, got.limited_by) == (want.blocks, want.limited_by)
    assert got.pct == pytest.approx(want.pct)


@pytest.mark.parametrize("arch", sorted(LIMITS))
def test_one_block_of_the_largest_shared_memory_fits(arch: int) -> None:
    """What one block may ask for, with the system's own KiB, is what the SM has."""
    limits = LIMITS[arch]

    most = occupancy(limits, n_threads=32, registers=1, shared_bytes=limits.block_shared_bytes)
    more = occupancy(limits, n_threads=32, registers=1, shared_bytes=limits.block_shared_bytes + 1)

    assert (most.blocks, more.blocks) == (1, 0)
