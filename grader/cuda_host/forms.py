"""The form of a CUDA C++ case's log, which comes from the student's process and may be forged."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(max_length=2000)]
Number = Annotated[int, Field(ge=-(2**63), lt=2**64)]
Sizes = Annotated[list[Number], Field(min_length=3, max_length=3)]


class Form(BaseModel):
    """Nothing but what is named."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Launch(Form):
    """One launch, as CUDA writes it."""

    kernel: Text
    grid: Sizes
    block: Sizes
    refused: bool

    def __str__(self) -> str:
        return f"{self.kernel}<<<{dim3(self.grid)}, {dim3(self.block)}>>>"


class Finding(Form):
    """One wrong access, as ``native.Finding``."""

    kind: Text
    is_write: bool
    tensor: Text
    n_elements: Number
    index: Number
    count: Number
    kernel: Text
    block: Sizes
    thread: Sizes
    line: Number


class Run(Form):
    """One call on the host."""

    ended: Text
    timed_out: bool
    pending: Text
    launches: list[Launch]
    findings: list[Finding]

    def launched(self) -> tuple[str, ...]:
        """A line for each of the first launches."""
        told = []
        for launch in self.launches[:2]:
            n_threads = math.prod((*launch.grid, *launch.block))
            told.append(f"launched: {launch}, {n_threads} threads")
        return tuple(told)


class Refusal(Form):
    """Of a compiler, as ``build.Refusal``."""

    kind: Text
    lines: list[Text]


class Returned(Form):
    """What the entry point returned."""

    kind: Text
    shape: list[Number]
    dtype: Text
    values: list[Text]


class CaseLog(Form):
    """All of it."""

    raised: Text
    returned: Returned | None
    is_changed: bool
    pending: Text
    todo: Text
    refusal: Refusal | None
    dtype: Text
    n_calls: Number
    n_runs: Number
    n_launches: Number
    runs: list[Run]


def dim3(sizes: list[int]) -> str:
    """Such as 4 or (4, 2): axes of 1 at the end are left out, as they are written."""
    return _shown(sizes, 1)


def index3(index: list[int]) -> str:
    """Such as 4 or (4, 2): axes of 0 at the end are left out."""
    return _shown(index, 0)


def _shown(numbers: list[int], left_out: int) -> str:
    shown = list(numbers)
    while len(shown) > 1 and shown[-1] == left_out:
        shown.pop()
    return str(shown[0]) if len(shown) == 1 else f"({', '.join(map(str, shown))})"
