"""What all passes of one launch share, and what they leave behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.simulator.cache import TileAccess
from grader.simulator.dtypes import Array
from grader.simulator.log import Finding

# so often in a row an atomic may find and leave the same, until its programs are taken for waiting
SPIN_LIMIT = 200


@dataclass(frozen=True, order=True)
class MaskedLoad:
    """A load without ``other`` whose mask left out lanes.

    Attributes:
        cut: Axes of the block along which it did.
    """

    place: tuple[str, int]  # file and line
    argument: str
    cut: tuple[int, ...]


@dataclass(frozen=True)
class Touch:
    """One access to a buffer under suspicion: element and program of each lane, and when.

    Attributes:
        element: In grains, as Buffer has it.
        n_grains: Of each element of the argument.
    """

    kind: str  # "read", "write" or "atomic"
    element: Array
    program: Array
    clock: int
    values: Array  # what a write writes
    argument: Any
    place: tuple[str, int]
    n_grains: int = 1


@dataclass
class LaunchState:
    """What all passes of one launch share."""

    kernel: str
    grid: tuple[int, int, int]
    checked: bool
    definition: tuple[str, int] = ("?", 0)  # file and line of the kernel
    tracked: frozenset[int] = frozenset()  # buffer addresses
    suspects: set[int] = field(default_factory=set)
    traffic: dict[str, tuple[int, ...]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    touches: dict[int, list[Touch]] = field(default_factory=dict)
    syncs: list[tuple[int, Array, Array, Array]] = field(default_factory=list)
    # by argument, where the first one was
    float_atomics: dict[str, tuple[str, int]] = field(default_factory=dict)
    executables: dict[Any, Any] = field(default_factory=dict)
    # file and line of a loop, programs, and how often each of them ran its body
    turns: list[tuple[tuple[str, int], Array, int]] = field(default_factory=list)
    accesses: list[TileAccess] | None = None  # for the cache model; None when nobody wants it
    clock: int = 0
    n_passes: int = 0
    patience: int = SPIN_LIMIT  # with atomics that may wait, or not
    n_steps: int = 0  # passes, loop turns and integer atomics, undone ones counted in
    budget: int | None = None  # of steps; a launch that needs more is abandoned
    masked_loads: set[MaskedLoad] = field(default_factory=set)
    has_products: bool = False  # of tl.dot
    exact_products: bool = False  # whose bits do not depend on the place in a tile
    is_repeat: bool = False  # only to learn more of what was run and shown before
    # where, and with which sign, masked lanes are infinite in this run
    trial: tuple[tuple[str, int], float] | None = None
