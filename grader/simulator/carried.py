"""What a loop carries from turn to turn: variables that keep their type, and numbers that become values.

Called by the code that rewriting.py puts around loops.
"""

from __future__ import annotations

from typing import Any

from grader.simulator import branches, run
from grader.simulator.errors import refuse
from grader.simulator.values import value_of


def types(
    variables: dict[str, Any], loop: tuple[str, int], counters: tuple[str, ...]
) -> dict[str, tuple[Any, Any]]:
    """Before a loop: type and shape of what it may carry, values and numbers.

    Not of the variable that it counts with, which is its own.
    """
    # a loop without a turn is seen, too
    run.current().turns[loop] += 0
    return _carriable({name: v for name, v in variables.items() if name not in counters})


def _carriable(variables: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    kinds = {name: branches.kind(held) for name, held in variables.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def value(given: Any) -> Any:
    """A number that a loop assigns again is a value from the loop's start on, as on the GPU."""
    return value_of(given) if isinstance(given, int | float) else given


def check_types(
    before: dict[str, tuple[Any, Any]], variables: dict[str, Any], loop: tuple[str, int]
) -> None:
    """At the end of a turn, count it; after the first, what was there before has kept its type.

    Raises:
        CompilationError: Naming the variable and both types.
    """
    run.current().turn(loop)
    if not before:
        return
    after = _carriable(variables)
    for name, was in before.items():
        if name in after and after[name] != was:
            refuse(
                f"loop-carried variable {name} has initial type {branches.text(was)} but is re-assigned to "
                f"{branches.text(after[name])} in the loop; make the type the same from the start"
            )
    before.clear()
