"""One pass of the Python kernel over a group of programs: what it changed, so that it can be undone.

A pass leaves no trace unless it is committed. Where the programs of a group disagree, the pass is
abandoned by raising Split, undone, and each part runs again from the start.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from grader.simulator.cache import TileAccess
from grader.simulator.dtypes import Array
from grader.simulator.errors import kernel_frame, source_line
from grader.simulator.index import Index
from grader.simulator.launch_state import SPIN_LIMIT, LaunchState, MaskedLoad, Touch
from grader.simulator.log import Finding, FindingKind, merge

# blocks of one pass stay below this, so that they stay in the cache and memory stays bounded;
# vector_add of 2**20 elements takes 2.4 ms so, 14 to 27 with 128 KB, 2 MB and 4 MB (1 MB of L2 a core)
BLOCK_BYTES = 1 << 20
# what a pass has overwritten by scattered stores; from here on none is kept twice
JOURNAL_BYTES = 64 << 20

Place = tuple[CodeType | None, int]


class Split(Exception):  # noqa: N818  control flow, not an error
    """The programs of this pass must run in these groups (indices into the pass)."""

    def __init__(self, groups: list[Array], *, memory: bool = False) -> None:
        super().__init__()
        self.groups = groups
        self.memory = memory


class Blocked(Exception):  # noqa: N818  control flow, not an error
    """These programs wait, at this file and line, for something only others can do."""

    def __init__(self, place: tuple[str, int]) -> None:
        super().__init__()
        self.place = place


class Abandoned(Exception):  # noqa: N818  control flow, not an error
    """This run of the launch, one of several, takes too long; what was seen of it stands."""


class Run:
    """One attempt at a group of programs."""

    def __init__(
        self, launch: LaunchState, ids: Array, coordinates: Array, lineage: Counter[Place]
    ) -> None:
        self.launch = launch
        self.ids = ids
        self.n = len(ids)
        self.coordinates = coordinates[:, ids]
        self.lineage = lineage
        self.program_ids: dict[int, Index] = {}
        self.spins: dict[Place, tuple[Array, int]] = {}
        self._journal: list[tuple[Array, Any, Array]] = []
        self._journal_bytes = 0
        self._saved: set[tuple[Any, ...]] = set()
        self._findings: list[Finding] = []
        self._traffic: dict[str, tuple[int, ...]] = {}
        self._touches: list[tuple[int, Touch]] = []
        self._syncs: list[tuple[int, Array, Array, Array]] = []
        self.turns: Counter[tuple[str, int]] = Counter()
        self.accesses: list[TileAccess] = []
        self.masked_loads: set[MaskedLoad] = set()

    def save(self, array: Array, index: Any) -> None:
        """Remember elements about to be overwritten; of the same ones, what was there first."""
        old, is_copy = array[index], isinstance(index, np.ndarray)
        key: tuple[Any, ...] = ()
        if not is_copy:
            place = old.__array_interface__
            key = place["data"], place["typestr"], place["shape"], place["strides"]
        elif self._journal_bytes > JOURNAL_BYTES:
            # too slow for every pass; without it a loop that stores would fill the memory
            key = array.ctypes.data, hashlib.sha256(index.tobytes()).digest()
        if key in self._saved:
            return
        if key:
            self._saved.add(key)
        self._journal_bytes += old.nbytes
        self._journal.append((array, index, old if is_copy else old.copy()))

    def roll_back(self) -> None:
        """Undo everything this pass wrote."""
        for array, index, old in reversed(self._journal):
            array[index] = old

    def commit(self) -> None:
        """Keep what this pass wrote and saw."""
        self.keep_log()
        for address, touch in self._touches:
            self.launch.touches.setdefault(address, []).append(touch)
        self.launch.syncs += self._syncs
        self.launch.masked_loads |= self.masked_loads
        if self.launch.accesses is not None:
            self.launch.accesses += self.accesses
        self.launch.turns += [(loop, self.ids, n) for loop, n in self.turns.items()]

    def keep_log(self) -> None:
        """Keep traffic and findings only (of a pass that ended in an exception)."""
        for name, counts in self._traffic.items():
            _add(self.launch.traffic, name, counts)
        merge(self.launch.findings, self._findings)

    def add_traffic(self, name: str, *counts: int) -> None:
        """Count one tile access of this pass, in the order of ArgumentTraffic's fields."""
        _add(self._traffic, name, counts)

    def turn(self, loop: tuple[str, int]) -> None:
        """Count a turn of a loop."""
        self.step()
        self.turns[loop] += 1

    def step(self) -> None:
        """Count what could go on for ever.

        Raises:
            Abandoned: Beyond the budget.
        """
        launch = self.launch
        launch.n_steps += 1
        if launch.budget is not None and launch.n_steps > launch.budget:
            raise Abandoned

    def tick(self, n: int) -> Array:
        """The next n moments of the launch, one per lane in order."""
        start = self.launch.clock
        self.launch.clock = start + n
        return np.arange(start, start + n)

    def touch(self, address: int, touch: Touch) -> None:
        """Remember an access to a buffer under suspicion."""
        self._touches.append((address, touch))

    def synchronise(self, address: int, word: Array, program: Array, clock: Array) -> None:
        """Remember an integer atomic: what one program did before it, a later one sees."""
        self.step()
        self._syncs.append((address, word, program, clock))

    def find(
        self,
        kind: FindingKind,
        row: int,
        text: str,
        *,
        advice: str,
        argument: str = "",
        index: tuple[int, ...] | None = None,
        count: int = 1,
    ) -> None:
        """Report what the program in this row of the pass did at the current line."""
        file, line = here()
        x, y, z = (int(c) for c in self.coordinates[:, min(row, self.n - 1)])
        self._findings.append(
            Finding(
                kind,
                self.launch.kernel,
                file,
                line,
                source_line(file, line),
                (x, y, z),
                argument,
                index,
                text,
                count,
                advice,
            )
        )

    def diverge(self, values: Array, cause: Array | None) -> NoReturn:
        """Split by the answer; from the second split at one line on, by what it depends on.

        ``if j <= pid`` in a loop would otherwise run 2 T - 1 passes for T outcomes instead of
        T + 2.
        """
        place = kernel_place()
        key = cause.reshape(-1) if self.lineage[place] and cause is not None else values
        self.lineage = self.lineage + Counter([place])
        kinds, inverse = np.unique(key, return_inverse=True)
        raise Split([np.flatnonzero(inverse == k) for k in range(len(kinds))])

    def too_large(self, block_bytes: int) -> NoReturn:
        """Split into chunks whose blocks fit."""
        size = max(1, BLOCK_BYTES * self.n // block_bytes)
        rows = np.arange(self.n)
        raise Split([rows[i : i + size] for i in range(0, self.n, size)], memory=True)

    def spin(self, element: Array, *, only_waits: bool) -> None:
        """An atomic changed nothing; often enough at one line and elements, and the group waits.

        Args:
            element: What it looked at.
            only_waits: A compare-and-swap or an exchange; an addition of 0 may also just count.
        """
        place = kernel_place()
        before, n = self.spins.get(place, (element, 0))
        n = n + 1 if np.array_equal(before, element) else 1
        self.spins[place] = element, n
        if n > (SPIN_LIMIT if only_waits else self.launch.patience):
            raise Blocked(here())


def check_size(n_rows: int, n_bytes: int) -> None:
    """Split the pass if a block of all its programs, of this many bytes, would be too large."""
    run = _current.run
    if n_bytes > BLOCK_BYTES and n_rows > 1 and run is not None:
        run.too_large(n_bytes)


class _Current:
    run: Run | None = None


_current = _Current()


def current() -> Run:
    """The pass in progress.

    Raises:
        RuntimeError: On the host, where no kernel runs.
    """
    run = _current.run
    if run is None:
        raise RuntimeError("triton.language works only inside a @triton.jit kernel")
    return run


def is_running() -> bool:
    """Whether a kernel runs now."""
    return _current.run is not None


def set_current(run: Run | None) -> None:
    """Start or end a pass."""
    _current.run = run


def kernel_place() -> Place:
    """The kernel's current line, as a key."""
    frame = kernel_frame()
    return (None, 0) if frame is None else (frame.f_code, frame.f_lineno)


def here() -> tuple[str, int]:
    """File and line of the kernel's current line."""
    frame = kernel_frame()
    return ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _add(totals: dict[str, tuple[int, ...]], name: str, counts: tuple[int, ...]) -> None:
    before = totals.get(name)
    totals[name] = (
        counts if before is None else tuple(a + b for a, b in zip(before, counts, strict=True))
    )
