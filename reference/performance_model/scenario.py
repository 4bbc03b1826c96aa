"""Calls one function of the submission with the arguments of a case, once per round."""

from __future__ import annotations

import contextlib
import numbers
from types import ModuleType
from typing import Any

from grader.scenarios import rounds

ENTRIES = (
    "occupancy",
    "tile_traffic",
    "softmax_traffic",
    "waves",
    "intensity",
    "bank_conflicts",
    "sectors",
)


def run(submission: ModuleType, case: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the function that the case is named after returned, per round.

    Args:
        submission: Has the functions.
        case: Such as "occupancy-random"; before the first hyphen stands the function.
        arguments: As ``grader.scenarios.flat`` names them.
    """
    function = getattr(submission, case.partition("-")[0])
    return {"returned": [_called(function, given) for given in rounds(arguments)]}


def _called(function: Any, given: dict[str, Any]) -> Any:
    try:
        returned = function(*given.values())
    except NotImplementedError:
        raise
    except Exception:
        # shown beside the traceback: which of the many calls it was
        print(f"called with {', '.join(f'{name}={value}' for name, value in given.items())}")
        raise
    # a named tuple is a tuple
    if isinstance(returned, list | tuple):
        return [_plain(item) for item in returned]
    return _plain(returned)


def _plain(value: Any) -> Any:
    """A number or a text of another class as Python's own: of NumPy and torch, a Fraction, an Enum."""
    if isinstance(value, bool):
        return value
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    elif isinstance(value, str):
        value = str.__str__(value)
    elif isinstance(value, numbers.Integral):
        value = int(value)
    elif isinstance(value, numbers.Real):
        # a Fraction that no float can hold is wrong as it is
        with contextlib.suppress(OverflowError):
            value = float(value)
    return value
