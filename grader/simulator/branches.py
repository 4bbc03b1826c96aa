"""What the compiler makes of `if`, `not` and `assert` where the condition is known at run time only.

Both branches are compiled: a variable keeps its type in them, one that is new in a single branch does
not exist after it, and a number that they assign is a value from then on. Only the branch that runs is
looked at here, so that two branches which give a new variable two types pass.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from grader.simulator import debug
from grader.simulator.comparisons import invert
from grader.simulator.constants import plain
from grader.simulator.errors import refuse
from grader.simulator.promotion import scalar_type
from grader.simulator.values import Value


class Branch:
    """One `if` as it runs.

    Attributes:
        is_dynamic: Whether the condition is known at run time only.
    """

    def __init__(self, test: Any, variables: dict[str, Any], assigned: Collection[str]) -> None:
        self.is_dynamic = isinstance(test, Value)
        self._taken = bool(condition(test))
        self._before = {}
        if self.is_dynamic:
            self._before = {name: variables[name] for name in assigned if name in variables}

    def __bool__(self) -> bool:
        return self._taken

    def check(self, variables: dict[str, Any]) -> None:
        """After the `if`: what was there before has kept its type.

        Raises:
            CompilationError: Naming the variable and both types.
        """
        for name, was in self._before.items():
            first, then = kind(was), kind(variables.get(name))
            if first is not None and then is not None and first != then:
                refuse(
                    f"{name} is {text(first)} before the `if` and {text(then)} in one branch; make "
                    "the type the same from the start"
                )

    def leaves(self, name: str, variables: dict[str, Any]) -> bool:
        """Whether a variable that one branch alone assigns is gone after the `if`."""
        return name in variables and name not in self._before


def kind(value: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Type and shape of a number or value; None for anything else."""
    if isinstance(value, Value):
        return value.dtype, value.shape
    return (scalar_type(value), ()) if isinstance(value, bool | int | float) else None


def text(given: tuple[Any, Any]) -> str:
    """A type and shape as a message has it."""
    t, shape = given
    return f"{t}{list(shape)}" if shape else str(t)


def condition(given: Any) -> Any:
    """What `if`, `while` and `x if c else y` ask: a value, or a constant that may be one."""
    constant = plain(given)
    if constant is not None and not isinstance(constant, Value | int):
        refuse(
            f"a condition is a comparison, a bool or an int, not {constant!r} (a Python "
            f"{type(constant).__name__}): compare it, as in NAME != ''"
        )
    return given


def loop_condition(given: Any) -> Value:
    """What `while` asks: a comparison of values, as nothing else can change from turn to turn."""
    if not isinstance(given, Value) or not given.dtype.is_bool():
        kind_of = f"{given.dtype}" if isinstance(given, Value) else f"the constant {plain(given)!r}"
        refuse(f"`while` asks for a comparison of values that the kernel computes, not {kind_of}")
    return given


def truth(value: Value) -> Value:
    """An operand of ``not``, ``and`` and ``or``."""
    if not value.dtype.is_bool():
        refuse(f"`not`, `and` and `or` take comparisons, not {value.dtype}: write x != 0")
    return value


def logical_not(operand: Any) -> Any:
    """``not``, of blocks elementwise."""
    if not isinstance(operand, Value):
        return not plain(operand)
    opposite = invert(truth(operand))
    opposite.cause = operand.cause
    return opposite


def check_assertion(condition: Any, message: Any = "") -> None:
    """``assert`` is tl.device_assert, which is off unless TRITON_DEBUG=1 is set."""
    debug.device_assert(condition, message)
