"""Draws the inputs of a correctness case and lays them out in memory. Runs in the verifier only.

Every tensor lies between guard zones of NaN inside its own storage, so that a read outside the
tensor yields NaN instead of a neighbour's values, on a GPU too.
"""

from __future__ import annotations

import hashlib

import torch

from grader.spec import FLOAT_DTYPES, Case, GradLayout, Inputs, Layout, Problem

GUARD_BYTES = 1024  # a multiple of every alignment a kernel may rely on
ROW_PAD = 5  # odd, so that padded rows do not start aligned


def rng_for(seed: int, *names: str) -> torch.Generator:
    """A generator that depends on the grading's secret seed and on what it is used for."""
    digest = hashlib.sha256("/".join((str(seed), *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


def draw(problem: Problem, case: Case, seed: int) -> Inputs:
    """The positional arguments of one case by name, tensors laid out as the case says."""
    inputs = problem.make_inputs(case, rng_for(seed, problem.name, case.id))
    return {
        name: lay_out(value, case.layout) if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }


def draw_grad(output: torch.Tensor, layout: GradLayout, rng: torch.Generator) -> torch.Tensor:
    """A gradient of the shape and dtype of ``output``, laid out as autograd may deliver it."""
    if layout == "expanded":
        return torch.ones((), dtype=output.dtype).expand(output.shape)
    grad = torch.randn(output.shape, generator=rng, dtype=torch.float32).to(output.dtype)
    return lay_out(grad, "strided" if layout == "strided" else "contiguous")


def is_differentiable(value: object) -> bool:
    """Whether a gradient is asked for: all floating tensor inputs."""
    return isinstance(value, torch.Tensor) and dtype_name(value.dtype) in FLOAT_DTYPES


def dtype_name(dtype: torch.dtype) -> str:
    """Such as "float32"."""
    return str(dtype).removeprefix("torch.")


def lay_out(tensor: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The values of ``tensor`` in new storage of the given layout, between guard zones.

    "strided" pads every row (of a vector, takes every second element), "transposed" swaps the
    storage order of the last two axes, "expanded" repeats the first entry of axis 0 with stride 0,
    "offset" starts one element after an aligned address.
    """
    if layout == "expanded" and tensor.ndim > 0 and tensor.shape[0] > 0:
        return _guarded(tensor[:1], _row_major(tensor[:1].shape)).expand(tensor.shape)
    strides = _row_major(tensor.shape)
    if layout == "strided" and tensor.ndim == 1:
        strides = [2]
    elif layout == "strided" and tensor.ndim > 1:
        rows = (*tensor.shape[:-1], tensor.shape[-1] + ROW_PAD)
        strides = _row_major(rows)
    elif layout == "transposed" and tensor.ndim > 1:
        swapped = (*tensor.shape[:-2], tensor.shape[-1], tensor.shape[-2])
        *outer, second, last = _row_major(swapped)
        strides = [*outer, last, second]
    return _guarded(tensor, strides, extra_offset=1 if layout == "offset" else 0)


def _row_major(shape: tuple[int, ...] | torch.Size) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _guarded(tensor: torch.Tensor, strides: list[int], extra_offset: int = 0) -> torch.Tensor:
    guard = GUARD_BYTES // tensor.element_size()
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, strides, strict=True))
    span = reach + 1 if tensor.numel() else 0
    storage = torch.empty(guard + extra_offset + span + guard, dtype=tensor.dtype)
    storage.fill_(_poison(tensor.dtype))
    view = storage.as_strided(tensor.shape, strides, guard + extra_offset)
    view.copy_(tensor)
    return view


def _poison(dtype: torch.dtype) -> float | int | bool:
    if dtype.is_floating_point:
        return float("nan")
    return True if dtype == torch.bool else torch.iinfo(dtype).max
