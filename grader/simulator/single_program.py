"""Running one program of a grid only, so that a debugger shows it alone.

What the other programs would have written stays unwritten: a later launch may read it and find so.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from grader.simulator.dtypes import Array

_FORM = re.compile(r"(?:(?P<kernel>\w+):)?(?P<program>\d+(?:, *\d+){0,2})")


@dataclass(frozen=True)
class Program:
    """A program of a grid.

    Attributes:
        place: Its ids along x, y, z.
        kernel: The kernel to run so; the launches of others run in full. Empty means all kernels.
    """

    place: tuple[int, int, int]
    kernel: str = ""

    def __str__(self) -> str:
        return f"{f'{self.kernel}:' if self.kernel else ''}{','.join(map(str, self.place))}"


class OutsideGridError(ValueError):
    """A launch has no such program."""


class _Asked:
    program: Program | None = None
    n_launches = 0


def parse(text: str) -> Program:
    """A program as written in SIM_PROGRAM: ``3``, ``3,0``, ``3,0,0`` or ``kernel_name:3,0``.

    Raises:
        ValueError: If it is none of these.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"SIM_PROGRAM={text}: want one to three program ids such as 3 or 3,0, or those of one"
            " kernel, such as softmax_kernel:3"
        )
    x, y, z = ([int(n) for n in match["program"].split(",")] + [0, 0])[:3]
    return Program((x, y, z), match["kernel"] or "")


def asked_for() -> Program | None:
    """The program that the variable SIM_PROGRAM names; None where it is empty or not set.

    Raises:
        ValueError: If it names none.
    """
    text = os.environ.get("SIM_PROGRAM", "").strip()
    return parse(text) if text else None


@contextlib.contextmanager
def only(program: Program | None) -> Iterator[None]:
    """In this block launches run this program alone; with None nothing changes."""
    before, _Asked.program, _Asked.n_launches = _Asked.program, program, 0
    try:
        yield
    finally:
        _Asked.program = before


def n_launches() -> int:
    """How many launches ran one program only since the last ``only`` began."""
    return _Asked.n_launches


def selected(kernel: str, grid: tuple[int, int, int], coordinates: Array) -> Array:
    """The programs to run of those in ``coordinates``, shape (3, programs), x fastest.

    Raises:
        OutsideGridError: If the program asked for is none of them.
    """
    asked = _Asked.program
    if asked is None or asked.kernel not in {"", kernel}:
        return coordinates
    inside = all(i < n for i, n in zip(asked.place, grid, strict=True))
    if not inside:
        raise OutsideGridError(
            f"SIM_PROGRAM={asked}: {kernel} is launched with the grid {grid}, which has no program"
            f" {asked.place}; name the kernel that is meant, such as {kernel}:0,0,0, and the others"
            " run in full"
        )
    _Asked.n_launches += 1
    column = np.ravel_multi_index(asked.place[::-1], grid[::-1])
    return coordinates[:, [column]]
