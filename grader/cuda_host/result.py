"""Compares the values that a CUDA C++ case returned with what is wanted. Verifier only."""

from __future__ import annotations

import base64
import binascii

import torch

from grader.cuda_host.drawing import POISON
from grader.cuda_host.forms import CaseLog
from grader.scenarios import Mistake
from grader.spec import Tolerance

MIN_PATTERN = 3  # fewer values show no regularity


def unwritten(
    seen: CaseLog, x: torch.Tensor, places: torch.Tensor, bits: torch.Tensor
) -> Mistake | None:
    """Elements of the result that still hold what was there before the call."""
    unwritten = bits == POISON
    if not unwritten.any():
        return None
    first, last = (_index(places[i], x) for i in unwritten.nonzero()[[0, -1], 0].tolist())
    return Mistake(
        f"{int(unwritten.sum())} of {_values(places, x)} were never written, from {first} to {last}",
        (
            *(line for run in seen.runs[:1] for line in run.launched()),
            "the grid must reach the last element: (n + threads - 1) / threads blocks",
            "the index must use all of blockIdx, blockDim and threadIdx",
        ),
        "never_written",
    )


def wrong_values(
    seen: CaseLog,
    x: torch.Tensor,
    places: torch.Tensor,
    bits: torch.Tensor,
    want: torch.Tensor,
    tolerance: Tolerance,
) -> Mistake | None:
    """Values outside the tolerance; NaN is."""
    got = bits.view(torch.float32).double()
    limit = tolerance.atol + tolerance.rtol * want.abs()
    wrong = ~((got - want).abs() <= limit)
    if not wrong.any():
        return None
    non_finite = wrong & ~torch.isfinite(got)
    at = int((non_finite if non_finite.any() else wrong).nonzero()[0])
    given, error = float(x.flatten()[places[at]]), float(limit[at])
    first = (
        f"first at {_index(places[at], x)}: x is {given:.6g}, got {float(got[at]):.6g},"
        f" want {float(want[at]):.6g} (allowed error {error:.2g})"
    )
    return Mistake(
        f"{int(wrong.sum())} of {_values(places, x)} are wrong",
        (
            first,
            *_pattern(got[wrong], want[wrong]),
            *(line for run in seen.runs[:1] for line in run.launched()),
        ),
        "non_finite" if non_finite.any() else "wrong_value",
    )


def _values(places: torch.Tensor, x: torch.Tensor) -> str:
    n, n_all = places.numel(), x.numel()
    return f"{n} values" if n == n_all else f"{n} values looked at, of {n_all}"


def _pattern(got: torch.Tensor, want: torch.Tensor) -> tuple[str, ...]:
    if bool((got == 0).all()):
        return ("every wrong value is 0",)
    if got.numel() < MIN_PATTERN:
        return ()
    ratio = got / want
    if bool(torch.isfinite(ratio).all()) and float(ratio.std(correction=0)) < 1e-3 * float(
        ratio.mean().abs()
    ):
        return (f"every wrong value is {float(ratio.mean()):.6g} times the wanted one",)
    return ()


def bits(chunks: list[str]) -> torch.Tensor | None:
    """The sent values as int32, so that a NaN keeps its bits; None if it is no such thing."""
    try:
        data = b"".join(base64.b64decode(chunk, validate=True) for chunk in chunks)
    except (binascii.Error, ValueError):
        return None
    if len(data) % 4:
        return None
    return (
        torch.frombuffer(bytearray(data), dtype=torch.int32)
        if data
        else torch.empty(0, dtype=torch.int32)
    )


def _index(place: torch.Tensor, x: torch.Tensor) -> str:
    index = tuple(int(i) for i in torch.unravel_index(place, x.shape))
    return f"index {index[0] if len(index) == 1 else index}"
