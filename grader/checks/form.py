"""What is checked before any value: untouched inputs, and type, shape and dtype of the outputs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from grader import verify
from grader.checks.trial import Trial
from grader.inputs import dtype_name
from grader.sandbox.client import Outcome
from grader.sandbox.protocol import Packed
from grader.scorecard import Check, Verdict
from grader.spec import Inputs


def modified(trial: Trial, inputs: Inputs, outcome: Outcome) -> Check | None:
    """Whether an input's own elements changed. Its padding is the memory group's affair."""
    for name, before in inputs.items():
        if not isinstance(before, torch.Tensor):
            continue
        after = _seen_through(outcome.after[name], before) if name in outcome.after else None
        if after is None:
            return verify.fail(
                Verdict.PROTOCOL_ERROR, f"input {name} did not come back", trial.context
            )
        if not torch.equal(_bits(before.detach()), _bits(after)):
            return verify.fail(
                Verdict.MODIFIED_INPUT, f"the call changed its input {name}", trial.context
            )
    return None


def _seen_through(storage: Packed, like: torch.Tensor) -> torch.Tensor | None:
    """The tensor ``like`` in the bytes that came back, if there are as many as were sent."""
    if storage.header.nbytes != like.untyped_storage().nbytes():
        return None
    flat = torch.frombuffer(storage.data, dtype=like.dtype)
    return flat.as_strided(like.shape, like.stride(), int(like.storage_offset()))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """As integers, so that NaN equals NaN and 0.0 differs from -0.0."""
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(integer[tensor.element_size()])


def form(trial: Trial, outcome: Outcome, wanted: Mapping[str, torch.Tensor]) -> Check | None:
    """Type, number, shape and dtype of the outputs."""
    want = "a tensor" if list(wanted) == ["y"] else f"a tuple of {len(wanted)} tensors"
    if outcome.reply.returned == "other_dtype":
        what = f"{outcome.reply.what}, want {trial.case.dtype}"
        return verify.fail(Verdict.WRONG_DTYPE, what, trial.context)
    if outcome.reply.returned == "other":
        what = f"{outcome.reply.what}, want {want}"
        return verify.fail(Verdict.WRONG_TYPE, what, trial.context)
    if set(outcome.outputs) != set(wanted):
        got = "a tensor" if "y" in outcome.outputs else f"a tuple of {len(outcome.outputs)}"
        return verify.fail(Verdict.WRONG_TYPE, f"returned {got}, want {want}", trial.context)
    for name, tensor in wanted.items():
        dtype = trial.case.dtype if tensor.is_floating_point() else dtype_name(tensor.dtype)
        header = outcome.outputs[name].header
        wrong = verify.check_form(
            header.shape, header.dtype, tensor.shape, dtype, output=name, context=trial.context
        )
        if wrong:
            return wrong
    return None
