"""Which accesses integer atomics put in order: spin locks, last-block counters, chains of flags.

Program p's access comes before program q's when p, after its access, used an integer atomic on a
word that q used later, before its own; or when a third program does likewise between the two.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from grader.simulator.dtypes import Array

Sync = tuple[int, Array, Array, Array]  # address; word, program and clock of each lane
_Word = tuple[int, int]  # address and element


class Order:
    """Order between accesses of one launch."""

    def __init__(self, syncs: Iterable[Sync]) -> None:
        # per program and word, the clocks of its atomics, ascending
        self._clocks: dict[int, dict[_Word, list[int]]] = defaultdict(dict)
        # all atomics by clock
        self._events: list[tuple[int, _Word, int]] = []
        for address, words, programs, clocks in syncs:
            for word, program, clock in zip(
                words.tolist(), programs.tolist(), clocks.tolist(), strict=True
            ):
                self._clocks[program].setdefault((address, word), []).append(clock)
                self._events.append((clock, (address, word), program))
        self._events.sort()

    @property
    def exists(self) -> bool:
        """Whether there is any atomic that could order anything."""
        return bool(self._clocks)

    def missing(self, first: Array, second: Array) -> Array:
        """Which pairs nothing orders.

        Args:
            first: Shape (pairs, 2): program and clock of the earlier access.
            second: Likewise of the later one.

        Returns:
            Shape (pairs,), bool.
        """
        # lanes of one tile access share their order: look at one of them
        both, inverse = np.unique(
            np.concatenate([first, second], axis=1), axis=0, return_inverse=True
        )
        unordered = np.array([not self._ordered(*pair) for pair in both.tolist()], np.bool_)
        # few are, and a look at one takes a look at all atomics: the first real race ends it
        for k in np.flatnonzero(unordered).tolist():
            unordered[k] = not self._ordered_by_others(*both[k].tolist())
            if unordered[k]:
                break
        found: Array = unordered[inverse.reshape(-1)]
        return found

    def _ordered_by_others(self, p: int, p_clock: int, q: int, q_clock: int) -> bool:
        """Whether a chain of atomics of other programs leads from one access to the other."""
        programs, words = {p}, set()
        for clock, word, program in self._events[bisect_left(self._events, (p_clock,)) :]:
            if clock > q_clock:
                return False
            if program in programs:
                words.add(word)
            elif word in words:
                programs.add(program)
                if program == q:
                    return True
        return False

    def _ordered(self, p: int, p_clock: int, q: int, q_clock: int) -> bool:
        released, acquired = self._clocks.get(p, {}), self._clocks.get(q, {})
        fewer, more = sorted((released, acquired), key=len)
        return any(
            _between(released[word], p_clock, acquired[word], q_clock)
            for word in fewer
            if word in more
        )


def _between(released: list[int], p_clock: int, acquired: list[int], q_clock: int) -> bool:
    """Whether p's first atomic after its access comes before q's last one before its access."""
    after = bisect_left(released, p_clock)
    before = bisect_right(acquired, q_clock) - 1
    return after < len(released) and before >= 0 and released[after] < acquired[before]
