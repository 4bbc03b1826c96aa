"""Compares what the student's code returned with what the oracle wants. Pure functions.

Does not run anything and awards no points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader.scorecard import MAX_CAUSE_CHARS, Check, Verdict
from grader.spec import Tolerance

PASSED = Check(verdict=Verdict.PASSED)


@dataclass(frozen=True)
class Context:
    """Which test a message is about.

    Attributes:
        test: Such as ``forward[softmax-M63-N781-float32]``.
        why: Why the case exists.
        rerun: The command that runs just this test, or "" where there is none.
        hidden: Values stay out of the message.
    """

    test: str
    why: str
    rerun: str = ""
    hidden: bool = False


def fail(verdict: Verdict, what: str, context: Context, *details: str) -> Check:
    """A failed check in the words a student reads: where, what, details, why, how to rerun.

    Details hold values, so a hidden case leaves them out.
    """
    lines = [f"{context.test}: {what if not context.hidden else str(verdict)}"]
    if not context.hidden:
        lines += [line for line in details if line]
    lines.append(f"this case checks: {context.why}")
    if context.rerun and not context.hidden:
        lines.append(f"rerun it: {context.rerun}")
    return Check(verdict=verdict, cause=_cut("\n  ".join(lines)))


def with_printed(check: Check, printed: str) -> Check:
    """A failed check with what the student's code printed during the test."""
    if not printed or check.verdict is Verdict.PASSED:
        return check
    lines = "\n    ".join(printed.splitlines())
    return with_lines(check, f"it printed:\n    {lines}")


def with_lines(check: Check, *lines: str) -> Check:
    """A check with more lines at the end of its cause."""
    return check.model_copy(update={"cause": _cut("\n  ".join([check.cause, *lines]))})


def _cut(cause: str) -> str:
    """A cause that a card can hold: the middle goes, where and why and how to rerun stay."""
    if len(cause) <= MAX_CAUSE_CHARS:
        return cause
    half = MAX_CAUSE_CHARS // 2 - 32
    return f"{cause[:half]}\n[... {len(cause) - 2 * half} characters cut ...]\n{cause[-half:]}"


def check_form(
    got_shape: Sequence[int],
    got_dtype: str,
    want_shape: Sequence[int],
    want_dtype: str,
    *,
    output: str,
    context: Context,
) -> Check | None:
    """Shape and dtype of one output; None when both are right."""
    if tuple(got_shape) != tuple(want_shape):
        what = f"{output} has shape {tuple(got_shape)}, want {tuple(want_shape)}"
        return fail(Verdict.WRONG_SHAPE, what, context)
    if got_dtype != want_dtype:
        what = f"{output} has dtype {got_dtype}, want {want_dtype}"
        return fail(Verdict.WRONG_DTYPE, what, context)
    return None


def compare(
    got: torch.Tensor,
    want: torch.Tensor,
    tolerance: Tolerance,
    *,
    output: str,
    wrong_verdict: Verdict,
    context: Context,
) -> Check | None:
    """Values of one output against the float64 oracle; None when all are within tolerance.

    Right is an error of at most ``tolerance.limit(want)``, or both the same infinity. Where the oracle is
    finite and ``got`` is not, the verdict is non_finite, else ``wrong_verdict``.

    Args:
        got: Any float dtype; shape of ``want``.
        want: float64, on the device of ``got``.
        tolerance: Allowed error.
        output: Name in messages, such as "y" or "grad:x".
        wrong_verdict: wrong_value, or wrong_gradient for a gradient.
        context: The test, for the message.
    """
    got = got.detach().double()
    want = want.detach().double()
    limit = tolerance.limit(want)
    # "not within" rather than "beyond", so that NaN counts as wrong; an infinite want has an
    # infinite limit, which would let anything pass
    within = torch.isfinite(want) & ((got - want).abs() <= limit)
    wrong = ~(within | (got == want))
    n_wrong = int(wrong.sum())
    if not n_wrong:
        return None
    non_finite = wrong & ~torch.isfinite(got) & torch.isfinite(want)
    verdict = Verdict.NON_FINITE if bool(non_finite.any()) else wrong_verdict
    shown = non_finite if verdict is Verdict.NON_FINITE else wrong
    first = "first that is not finite" if verdict is Verdict.NON_FINITE else "first"
    index = tuple(int(i) for i in shown.nonzero()[0])
    return fail(
        verdict,
        f"{n_wrong} of {wrong.numel()} values of {output} are wrong",
        context,
        f"{first} at index {index}: got {_number(got[index])}, want {_number(want[index])}"
        f" (allowed error {float(limit[index]):.2g})",
        _largest_error(got, want, wrong),
        _pattern(got, want, wrong),
    )


def _number(value: torch.Tensor) -> str:
    return f"{float(value):.6g}"


def _largest_error(got: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor) -> str:
    error = torch.where(wrong, (got - want).abs(), 0.0)
    error = torch.where(torch.isfinite(error), error, 0.0)
    if float(error.max()) == 0:
        return ""
    flat = int(error.argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), error.shape))
    return (
        f"largest error {float(error.max()):.3g} at index {index}:"
        f" got {_number(got[index])}, want {_number(want[index])}"
    )


def _pattern(got: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor) -> str:
    """One observed regularity of the wrong values, or "". States facts, guesses no cause."""
    bad = got[wrong]
    if bool((bad == 0).all()):
        return "pattern: every wrong value is 0"
    if bool(bad.isnan().all()):
        return "pattern: every wrong value is NaN"
    if wrong.ndim and wrong.shape[-1] > 1:
        columns = wrong.reshape(-1, wrong.shape[-1]).any(dim=0).nonzero().flatten()
        first, last = int(columns[0]), int(columns[-1])
        if first > 0 and last == wrong.shape[-1] - 1:
            return f"pattern: all at indices {first} to {last} of the last axis"
    if wrong.ndim > 1 and wrong.shape[0] > 1:
        rows = wrong.flatten(1).any(dim=1).nonzero().flatten()
        if len(rows) < wrong.shape[0]:
            return f"pattern: all in {len(rows)} of {wrong.shape[0]} rows, first row {int(rows[0])}"
    ratio = bad / want[wrong]
    if bool(torch.isfinite(ratio).all()) and float(ratio.std(correction=0)) < 1e-3 * float(
        ratio.mean().abs()
    ):
        return f"pattern: every wrong value is {float(ratio.mean()):.6g} times the wanted one"
    return "pattern: wrong values all over"
