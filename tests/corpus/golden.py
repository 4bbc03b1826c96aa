"""What a GPU gave for every case of the corpus, as a file; and comparing with it."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.corpus.case import Within, raw

_BITS_OF = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Golden:
    """Results of one machine.

    Attributes:
        machine: GPU and versions, date and command, as text by name.
        inputs: Fingerprint of the arguments, by case.
        outputs: Tensors by output and case.
    """

    machine: dict[str, str]
    inputs: dict[str, int]
    outputs: dict[str, dict[str, torch.Tensor]]


def write(path: Path, golden: Golden) -> None:
    """One line per case, so that a changed case is a changed line."""
    lines = [f'"machine": {json.dumps(golden.machine)}']
    for name, outputs in golden.outputs.items():
        entry = {
            "inputs": golden.inputs[name],
            **{output: _encoded(tensor) for output, tensor in outputs.items()},
        }
        lines.append(f"{json.dumps(name)}: {json.dumps(entry)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> Golden:
    """The file that ``write`` made."""
    entries = json.loads(path.read_text())
    machine = entries.pop("machine")
    inputs = {name: entry.pop("inputs") for name, entry in entries.items()}
    outputs = {
        name: {output: _decoded(**given) for output, given in entry.items()}
        for name, entry in entries.items()
    }
    return Golden(machine, inputs, outputs)


def _encoded(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "data": base64.b64encode(zlib.compress(raw(tensor), 9)).decode(),
    }


def _decoded(dtype: str, shape: list[int], data: str) -> torch.Tensor:
    stored = bytearray(zlib.decompress(base64.b64decode(data)))
    return torch.frombuffer(stored, dtype=torch.uint8).view(getattr(torch, dtype)).reshape(shape)


def difference(got: torch.Tensor, want: torch.Tensor, within: Within | None) -> str:
    """Where two results differ by more than they may, with both values; empty if nowhere.

    Without ``within`` every bit counts, but for what is in a NaN.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"got {got.dtype} {list(got.shape)}, want {want.dtype} {list(want.shape)}"
    got, want = got.reshape(-1), want.reshape(-1)
    wrong = _bits(got) != _bits(want)
    if got.dtype.is_floating_point:
        x, y = got.double(), want.double()
        wrong &= ~(x.isnan() & y.isnan())
        if within is not None:
            # a NaN or an infinity for a number is no small error
            wrong &= ~(
                x.isfinite() & y.isfinite() & ((x - y).abs() <= _allowed(y, within, want.dtype))
            )
    if not wrong.any():
        return ""
    n_wrong, first = int(wrong.sum()), int(wrong.nonzero()[0])
    worst = _worst(got, want, wrong)
    return (
        f"{n_wrong} of {wrong.numel()} differ{worst}; first at {first}: "
        f"got {got[first].item()!r}, want {want[first].item()!r}"
    )


def _worst(got: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor) -> str:
    if not got.dtype.is_floating_point:
        return ""
    x, y = got.double()[wrong], want.double()[wrong]
    apart = (x - y).abs()
    units = (apart / ulp(y, want.dtype)).nan_to_num(torch.inf, torch.inf)
    return f" (by up to {float(units.max()):.3g} units in the last place, {float(apart.max()):.3g})"


def _allowed(want: torch.Tensor, within: Within, dtype: torch.dtype) -> torch.Tensor:
    return torch.clamp(within.ulps * ulp(want, dtype), min=within.atol)


def ulp(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance from |x| to the next larger number of ``dtype``, as float64."""
    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(x.abs().clamp(min=limits.tiny))
    return torch.ldexp(torch.full_like(x, limits.eps, dtype=torch.float64), exponent - 1)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(_BITS_OF[tensor.dtype.itemsize])
