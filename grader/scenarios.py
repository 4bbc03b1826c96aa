"""What a scenario's log is made of, and what its judge may say. Needs neither torch nor pydantic.

A scenario problem has a file ``scenario.py`` that runs in the student's process and returns a log:
plain data of what the student's functions did or returned. ``PROBLEM.judge`` looks at it in the
verifier. Whoever runs student code can forge a log, so a judge takes no form for granted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Log: TypeAlias = "dict[str, Any]"

MAX_LOG_BYTES = 48 * 1024  # a reply's header holds 64 KiB
_MAX_TEXT_CHARS = 2000
_MAX_DEPTH = 8
_TOO_LARGE = 1e300  # below the largest float: sums and conversions of units still are numbers
# how a value that JSON cannot carry is told
_FOREIGN = frozenset({"type", "text"})


@dataclass(frozen=True)
class Mistake:
    """What a judge found wrong.

    Attributes:
        what: One line, in a student's words.
        details: Further lines: what was seen, what was wanted, what to do.
        verdict: A member of ``grader.scorecard.Verdict``.
    """

    what: str
    details: tuple[str, ...] = ()
    verdict: str = "wrong_value"


def plain(value: object, depth: int = 0) -> Any:
    """``value`` as JSON can carry it; what it cannot is told by type and text.

    >>> plain({"blocks": (3, 2), "share": float("nan")})
    {'blocks': [3, 2], 'share': {'type': 'float', 'text': 'nan'}}
    """
    # exact types: a subclass may behave in its own way while it is written
    if value is None or type(value) is bool:
        return value
    if is_number(value) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is str:
        return value[:_MAX_TEXT_CHARS]
    if depth < _MAX_DEPTH and type(value) in {list, tuple}:
        return [plain(item, depth + 1) for item in value]  # type: ignore[attr-defined]  # a list or tuple
    if depth < _MAX_DEPTH and type(value) is dict and all(type(key) is str for key in value):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    return {"type": type(value).__name__, "text": _text(value)}


def _text(value: object) -> str:
    try:
        return repr(value)[:_MAX_TEXT_CHARS]
    except RecursionError:
        return "nested too deep to be shown"
    except ValueError:
        if type(value) is int:  # Python writes no more than 4300 digits
            return f"an int of {value.bit_length()} bits"
        raise


def has_form(value: Any, form: Any) -> bool:
    """Whether a log, or a part of one, is built as ``form`` says.

    A type stands for a value of just this type, ``[form]`` for a list of any length, a tuple of
    forms for a list of as many items, a dict for one with the same keys, a set of types for any of
    them, and ``object`` for whatever there is.

    >>> has_form({"line": 3, "names": ["a", "b"]}, {"line": int, "names": [str]})
    True
    >>> has_form(["a", 3], (str, int))
    True
    >>> has_form({"line": True, "names": []}, {"line": int, "names": [str]})
    False
    """
    if form is object:
        return True
    if isinstance(form, list):
        return type(value) is list and all(has_form(item, form[0]) for item in value)
    if isinstance(form, tuple):
        same = type(value) is list and len(value) == len(form)
        return same and all(map(has_form, value, form))
    if isinstance(form, dict):
        same = type(value) is dict and value.keys() == form.keys()
        return same and all(has_form(value[key], form[key]) for key in form)
    return type(value) in (form if isinstance(form, set) else {form})


def flat(*given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of several calls as one case can hold them: no lists, one level of names.

    >>> flat({"n": 3, "at": [7, 8]}, {"n": 4})
    {'0.n': 3, '0.at.0': 7, '0.at.1': 8, '1.n': 4}
    """
    names: dict[str, Any] = {}
    for i, arguments in enumerate(given):
        for name, value in arguments.items():
            if isinstance(value, list):
                names |= {f"{i}.{name}.{j}": item for j, item in enumerate(value)}
            else:
                names[f"{i}.{name}"] = value
    return names


def rounds(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What ``flat`` was given.

    >>> rounds({"0.n": 3, "0.at.0": 7, "0.at.1": 8, "1.n": 4})
    [{'n': 3, 'at': [7, 8]}, {'n': 4}]
    """
    calls: dict[str, dict[str, Any]] = {}
    for key, value in arguments.items():
        number, name, *index = key.split(".")
        given = calls.setdefault(number, {})
        if index:
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    return list(calls.values())


def shown(value: Any) -> str:
    """One value of a log in words: ``3``, ``'red'``, ``a Tensor: tensor([1.])``."""
    if isinstance(value, Mapping) and value.keys() == _FOREIGN:
        kind, text = str(value["type"]), str(value["text"])
        article = "an" if kind[:1].lower() in {*"aeiou"} else "a"
        return text if kind in {"int", "float"} else f"{article} {kind}: {text}"
    return repr(value)


def is_number(value: Any) -> bool:
    """Whether a value of a log is an int or float that arithmetic can take; True and False are none.

    An int of four hundred digits is no number here, as no float can hold it.
    """
    return type(value) in {int, float} and abs(value) < _TOO_LARGE
