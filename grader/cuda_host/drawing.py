"""Draws the input of a case from its arguments, alike in the student's process and in the verifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

POISON = 0x7FC0DEAD  # bits of a NaN that no arithmetic makes; what is not written keeps them
MAX_SHOWN = 3072  # values that a log holds: 16 KB of 48

# the numbers that say what to draw and how to run it; a case names those that differ
DEFAULTS: Mapping[str, Any] = {
    "rows": 0,  # 0: one axis
    "cols": 1,
    "scale": 2.0,
    "limit": 0.0,  # not 0: from -limit to limit instead of at random
    "step": 1,  # not 1: every so many-th element of the last axis
    "on_host": False,
    "on_cpu": False,
    "may_refuse": False,
    "compiles": False,
}


def draw(arguments: Mapping[str, Any], device: str = "cpu") -> torch.Tensor:
    """x, shape (cols,) or (rows, cols), float32, from N(0, scale**2) or along a line."""
    rows, cols, step = (arguments[name] for name in ("rows", "cols", "step"))
    shape = (rows, cols * step) if rows else (cols * step,)
    if arguments["limit"]:
        n = cols * step * max(rows, 1)
        x = torch.linspace(-arguments["limit"], arguments["limit"], n).reshape(shape)
    else:
        rng = torch.Generator().manual_seed(arguments["seed"])
        x = arguments["scale"] * torch.randn(shape, generator=rng)
    # moved first: a copy to another device has no gaps
    return x.to(device)[..., ::step]


def shown_places(n: int, seed: int) -> torch.Tensor:
    """Which of n values a log holds: all, or the first, the last and some at random."""
    if n <= MAX_SHOWN:
        return torch.arange(n)
    third = MAX_SHOWN // 3
    rng = torch.Generator().manual_seed(seed + 1)
    middle = torch.randint(third, n - third, (third,), generator=rng)
    return torch.cat([torch.arange(third), middle.sort().values, torch.arange(n - third, n)])
