"""Atomics on one word from many lanes and programs, against doing them one after the other."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.simulator import load_module, recording

N_PROGRAMS, LANES, WORDS = 3, 8, 4

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def cas(word_ptr, index_ptr, cmp_ptr, val_ptr, old_ptr):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    index, cmp, val = tl.load(index_ptr + i), tl.load(cmp_ptr + i), tl.load(val_ptr + i)
    tl.store(old_ptr + i, tl.atomic_cas(word_ptr + index, cmp, val))


@triton.jit
def xchg(word_ptr, index_ptr, cmp_ptr, val_ptr, old_ptr):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    index, val = tl.load(index_ptr + i), tl.load(val_ptr + i)
    tl.store(old_ptr + i, tl.atomic_xchg(word_ptr + index, val))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """Both kernels."""
    path: Path = tmp_path_factory.mktemp("atomics") / "submission.py"
    path.write_text(KERNELS)
    return load_module(path, name="submission_of_test_simulator_atomics")


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(["cas", "xchg"]),
    uniform=st.booleans(),
)
def test_lanes_take_turns(
    kernels: types.ModuleType, seed: int, name: str, *, uniform: bool
) -> None:
    """Every lane finds what the lanes before it left; also where all compare and write the same."""
    rng = np.random.default_rng(seed)
    n = N_PROGRAMS * LANES
    words, index = rng.integers(0, 3, WORDS), rng.integers(0, WORDS, n)
    cmp, val = rng.integers(0, 3, n), rng.integers(0, 3, n)
    if uniform:
        cmp[:], val[:] = cmp[0], val[0]
    given_words, old = torch.from_numpy(words.astype(np.int32)), torch.zeros(n, dtype=torch.int32)
    tensors = [torch.from_numpy(a.astype(np.int32)) for a in (index, cmp, val)]

    with recording():
        getattr(kernels, name)[(N_PROGRAMS,)](given_words, *tensors, old)

    now, found = words.tolist(), []
    for i, c, v in zip(index.tolist(), cmp.tolist(), val.tolist(), strict=True):
        found.append(now[i])
        if name == "xchg" or now[i] == c:
            now[i] = v
    assert old.tolist() == found
    assert given_words.tolist() == now
