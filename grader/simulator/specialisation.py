"""What Triton would compile for a launch: the kernel, and of each argument what it specialises on.

A pointer is its dtype and whether it is 16-byte aligned; a tensor descriptor its dtype and block; an integer stands for all of its kind (1,
divisible by 16, its width); a tl.constexpr argument is its value. Compiles nothing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.simulator.dtypes import dtype
from grader.simulator.tensor_descriptors import TensorDescriptor

# Kind and value, as JSON can carry them. Of kind pointer and aligned: the dtype as torch names it;
# descriptor: dtype, padding and block shape, such as "float16 zero 1 64 32"; int: the representative of
# its kind; constant: the value itself; dtype: as Triton names it.
Encoded = tuple[str, Any]

_ALIGNMENT_BYTES = 16
_MAX_INT32, _MAX_INT64, _MAX_UINT64 = 2**31 - 1, 2**63 - 1, 2**64 - 1
_MAX_TEXT_CHARS = 200


@dataclass(frozen=True)
class Config:
    """Another config of @triton.autotune: the arguments and options in which it differs."""

    text: str
    arguments: Mapping[str, Encoded]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Specialisation:
    """One kernel as launched.

    Attributes:
        line: Of the definition, its first decorator.
        config: The config that ran, if @triton.autotune chose among several; else "".
        others: The configs that did not run.
    """

    kernel: str
    file: str
    line: int
    arguments: Mapping[str, Encoded]
    options: Mapping[str, Any]
    config: str = ""
    others: tuple[Config, ...] = ()


# of one config: its text, the arguments by name, the launch options
Choice = tuple[str, Mapping[str, Any], Mapping[str, Any]]
_choices: list[Sequence[Choice]] = []


@contextlib.contextmanager
def tuning(choices: Sequence[Choice]) -> Iterator[None]:
    """The launch in this block takes the first of these configs."""
    _choices.append(choices)
    try:
        yield
    finally:
        _choices.pop()


def specialisation(
    kernel: str,
    definition: tuple[str, int],
    arguments: Mapping[str, Any],
    constants: frozenset[str],
    options: Mapping[str, Any],
) -> Specialisation:
    """What Triton would compile for this launch, and for the other configs of its autotune."""
    encoded = _all_encoded(arguments, constants)
    file, line = definition
    choices = _choices[-1] if _choices and len(_choices[-1]) > 1 else ()
    others = []
    for text, its_arguments, its_options in choices[1:]:
        small = {k: v for k, v in its_arguments.items() if not isinstance(v, torch.Tensor)}
        differing = {k: v for k, v in _all_encoded(small, constants).items() if v != encoded.get(k)}
        others.append(Config(text[:_MAX_TEXT_CHARS], differing, _plain_options(its_options)))
    config = choices[0][0][:_MAX_TEXT_CHARS] if choices else ""
    return Specialisation(
        kernel, file, line, encoded, _plain_options(options), config, tuple(others)
    )


def _plain_options(options: Mapping[str, Any]) -> dict[str, bool | int | None]:
    """Without the stream, which is no business of the compiler."""
    return {
        name: value for name, value in options.items() if value is None or isinstance(value, int)
    }


def _all_encoded(arguments: Mapping[str, Any], constants: frozenset[str]) -> dict[str, Encoded]:
    return {name: encoded(v, constant=name in constants) for name, v in arguments.items()}


def encoded(value: Any, *, constant: bool) -> Encoded:
    """One argument; equal for all values that Triton compiles alike."""
    if isinstance(value, torch.Tensor | TensorDescriptor):
        return _encoded_tensor(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dtype):
        return "dtype", value.name
    if isinstance(value, tuple | list) and not any(isinstance(v, tuple | list) for v in value):
        return "tuple", [encoded(item, constant=constant) for item in value]
    if value is None or isinstance(value, str):
        return _encoded_text(value)
    if not isinstance(value, bool | int | float) or _is_too_wide(value):
        return "other", type(value).__name__
    return _encoded_constant(value) if constant else _encoded_number(value)


def _encoded_tensor(value: torch.Tensor | TensorDescriptor) -> Encoded:
    if isinstance(value, TensorDescriptor):
        dtype_name = str(value.base.dtype).removeprefix("torch.")
        return "descriptor", " ".join(map(str, (dtype_name, value.padding, *value.block_shape)))
    is_aligned = value.data_ptr() % _ALIGNMENT_BYTES == 0
    return "aligned" if is_aligned else "pointer", str(value.dtype).removeprefix("torch.")


def _is_too_wide(value: float) -> bool:
    return isinstance(value, int) and abs(value) > _MAX_UINT64


def _encoded_text(value: str | None) -> Encoded:
    """None, or a name; text that no kernel is compiled for is not told."""
    if value is None or (value.isascii() and len(value) <= _MAX_TEXT_CHARS):
        return "constant", value
    return "other", "long or non-ASCII text"


def _encoded_constant(value: Any) -> Encoded:
    if isinstance(value, bool | int):
        return "constant", value
    if math.isfinite(value):
        return "constant", float(value)
    return "constant_float", str(float(value))


def _encoded_number(value: Any) -> Encoded:
    """A number given at run time; an integer by the representative of its kind."""
    if isinstance(value, bool):
        return "bool", True
    if isinstance(value, float):
        return "float", 0.5
    if value == 1:
        return "int", 1
    # the smallest of the width that is (or is not) divisible by 16
    least = 0 if -_MAX_INT32 - 1 <= value <= _MAX_INT32 else 2**31
    least = 2**63 if value > _MAX_INT64 else least
    return "int", least + (16 if value % 16 == 0 else 3)
