"""What a worker may answer, as the verifier reads it: anything else is a protocol error.

A reply is a claim of a process that runs student code; it is never trusted further than its form.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from grader.sandbox.protocol import TRACEBACK_LIMIT_CHARS
from grader.sandbox.raised import MESSAGE_LIMIT_CHARS, Kind
from grader.seen import (
    AutotunedSeen,
    CompiledKernel,
    Count,
    FindingSeen,
    LaunchSeen,
    RefusedSeen,
    SpecialisationSeen,
    Text,
)
from grader.spec import Dtype


class Reply(BaseModel):
    """Fields of every reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: int
    op: str


class Raised(Reply):
    """Student code ended with an exception."""

    op: Literal["raised"]
    stage: Literal["import", "call"]
    kind: Kind
    type: Annotated[str, Field(max_length=128)]
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT_CHARS)]
    traceback: Annotated[str, Field(max_length=TRACEBACK_LIMIT_CHARS)]
    sticky: bool
    """The CUDA context is lost."""


class Ready(Reply):
    """The process runs and can use its device."""


class Loaded(Reply):
    """The submission is imported."""


class Returned(Reply):
    """The entry point returned."""

    returned: Literal["tensors", "other", "other_dtype"]
    what: Text = ""
    """What came instead of tensors."""
    saved_instead: Text = ""
    """What was saved for the backward, if not one tensor of the shape asked for."""
    wrong_grads: dict[Text, Text] = Field(default_factory=dict)
    """Gradients that are no plain tensors: input to what they are."""
    n_launches: Count = 0
    n_forward_launches: Count = 0
    """Of these, the ones before the gradient was sent back."""
    launches: tuple[LaunchSeen, ...] = ()
    specialisations: tuple[SpecialisationSeen, ...] = ()
    """Of all launches, each once."""
    n_specialisations: Count = 0
    """How many there were; the message has room for so many only."""
    findings: tuple[FindingSeen, ...] = ()
    autotuned: tuple[AutotunedSeen, ...] = ()
    read: Count = 0
    written: Count = 0
    """Elements over all launches; an atomic counts as both."""


class ScenarioReply(Reply):
    """A scenario ran to its end."""

    log: dict[str, Any]
    """Plain data; its form is the judge's to check."""


class PreparedReply(Reply):
    """A benchmark case is ready."""

    warmup_ms: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(max_length=1000)]
    spin_us: Annotated[float, Field(ge=0)]
    peak_bytes: Count


class CalledReply(Reply):
    """One timed call."""

    event_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    checksum: int
    input_hash: int


class DeviceTensor(BaseModel):
    """A contiguous tensor in the verifier's device memory, ``at`` bytes from its beginning."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    dtype: Dtype
    shape: Annotated[tuple[Count, ...], Field(max_length=8)]
    at: Count


class Fetched(Reply):
    """The tensors of the preceding call follow, or lie in the device memory that was offered."""

    on_device: Annotated[tuple[DeviceTensor, ...], Field(max_length=16)] = ()
    needs_bytes: Count = 0
    """What was offered is too small; so much is needed."""


class CompiledReply(Reply):
    """One kernel was compiled, or refused."""

    compiled: CompiledKernel | None = None
    refused: RefusedSeen | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.compiled is None) == (self.refused is None):
            raise ValueError("either compiled or refused")
        return self


MODELS: dict[str, type[Reply]] = {
    "raised": Raised,
    "ready": Ready,
    "load": Loaded,
    "compile": CompiledReply,
    "forward": Returned,
    "vjp": Returned,
    "scenario": ScenarioReply,
    "prepare": PreparedReply,
    "call": CalledReply,
    "fetch": Fetched,
}


def parse(header: dict[str, Any], op: str) -> Reply:
    """The reply to a request ``op``, or what student code raised instead.

    Raises:
        ValueError: If the header is neither.
    """
    got = header.get("op")
    if got not in {op, "raised"}:
        raise ValueError(f"the answer to {op!r} is {got!r}")
    return MODELS[got].model_validate(header)
