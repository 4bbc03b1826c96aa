"""Calls one function of the submission with the arguments of a case, once per round."""

from __future__ import annotations

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
    # a named tuple is a tuple, and NumPy's and torch's numbers are numbers
    if isinstance(returned, list | tuple):
        return [_number(item) for item in returned]
    return _number(returned)


def _number(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 else value
