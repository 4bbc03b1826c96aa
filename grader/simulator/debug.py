"""Hints, checks and output inside kernels."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from grader.simulator import advice, run
from grader.simulator.constants import plain
from grader.simulator.creation import to_bool
from grader.simulator.errors import StaticAssertError, refuse
from grader.simulator.values import Value, value_of

# the names that kernels know as tl.<name>
LANGUAGE = (
    "static_assert",
    "static_print",
    "device_assert",
    "device_print",
    "multiple_of",
    "max_contiguous",
    "max_constancy",
    "assume",
    "debug_barrier",
)

# a block kernel prints per program; nobody reads more than this
_MAX_PRINTED_PROGRAMS = 4


def multiple_of(input: Any, values: Any) -> Any:  # noqa: A002  Triton's keyword
    """Of interest to the compiler only."""
    return _hinted(input, values, "tl.multiple_of")


def max_contiguous(input: Any, values: Any) -> Any:  # noqa: A002  Triton's keyword
    """Of interest to the compiler only."""
    return _hinted(input, values, "tl.max_contiguous")


def max_constancy(input: Any, values: Any) -> Any:  # noqa: A002  Triton's keyword
    """Of interest to the compiler only."""
    return _hinted(input, values, "tl.max_constancy")


def _hinted(x: Any, values: Any, function: str) -> Any:
    given = plain(values)
    numbers = list(given) if isinstance(given, tuple | list) else [given]
    rank = len(value_of(x).shape)
    # of a scalar, tl.multiple_of alone takes a value
    if len(numbers) != (max(1, rank) if function == "tl.multiple_of" else rank):
        refuse(f"{function} takes one value for each of the {rank} axes, not {len(numbers)}")
    if not all(isinstance(n, int) for n in numbers):
        refuse(f"{function} takes constant integers, not {given!r}")
    return x


def assume(cond: Any) -> None:
    """Of interest to the compiler only."""
    given = value_of(cond)
    if given.shape or not given.dtype.is_bool():
        refuse(f"tl.assume takes one comparison, not {given.dtype} of shape {given.shape}")


def debug_barrier() -> None:
    """Nothing to do where each program runs in order."""


def static_assert(cond: Any, msg: Any = "") -> None:
    """Fail at compile time."""
    given = plain(cond)
    if not isinstance(given, bool):
        what = "a value" if isinstance(given, Value) else repr(given)
        refuse(
            f"tl.static_assert takes a compile-time comparison, not {what}; of values, use "
            "tl.device_assert"
        )
    if not given:
        text = str(plain(msg))
        raise StaticAssertError(f"static_assert failed: {text}" if text else "static_assert failed")


def static_print(*values: Any, **_options: Any) -> None:
    """Print at compile time, once."""
    _print(" ".join(str(plain(v)) for v in values))


def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Checked only under TRITON_DEBUG=1 on a GPU; here a failure is a note."""
    held = to_bool(cond).data
    if plain(mask) is not None:
        held = held | ~to_bool(mask).data
    if not held.all():
        row = int(np.argwhere(~held)[0][0])
        run.current().find("note", row, f"device_assert failed: {plain(msg)}", advice=advice.ASSERT)


def device_print(prefix: Any, *values: Any, hex: Any = False) -> None:  # noqa: A002  Triton's
    """Print the values of the first few programs."""
    if not isinstance(plain(prefix), str):
        refuse("tl.device_print begins with a text: tl.device_print('n', n)")
    for value in values:
        value_of(value)
    current = run.current()
    if current.launch.is_repeat:
        return
    for row in range(min(current.n, _MAX_PRINTED_PROGRAMS)):
        program = tuple(int(c) for c in current.coordinates[:, row])
        shown = " ".join(str(_of_program(v, row)) for v in values)
        _print(" ".join(["pid", str(program), *filter(None, [str(plain(prefix)), shown])]))


def kernel_print(*values: Any, **_options: Any) -> None:
    """Python's print inside a kernel is device_print, here without a prefix, too."""
    has_prefix = bool(values) and isinstance(plain(values[0]), str)
    device_print(*values) if has_prefix else device_print("", *values)


def _of_program(value: Any, row: int) -> Any:
    data = value_of(value).data
    return data[row if data.shape[0] > 1 else 0]


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
