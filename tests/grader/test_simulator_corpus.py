"""The simulator gives what a GPU gave, for every kernel of the corpus.

`tests/corpus/record.py` says how the golden data was made. Where the GPU's result is defined exactly, every
bit counts; a case with a tolerance says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grader.simulator import dot, dtypes, load_module, mathematics, random_numbers
from grader.simulator.dtypes import dtype
from tests.corpus import golden, inputs
from tests.corpus.case import Case, Within, out, raw, run
from tests.corpus.record import KERNELS, all_cases

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = golden.read(ROOT / "tests/data/golden.json")
CASES = all_cases(
    lambda theme: load_module(KERNELS / f"{theme}.py", name=f"corpus_{theme}_in_the_simulator")
)
BY_NAME = {case.name: case for case in CASES}


def differences(case: Case, want: dict[str, torch.Tensor]) -> list[str]:
    """What is wrong with the simulator's result, by output."""
    got = run(case)
    assert got.keys() == want.keys()
    wrong = {name: golden.difference(got[name], want[name], case.within) for name in got}
    return [f"{case.name}: {name}: {text}" for name, text in wrong.items() if text]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_gpu_gave_the_same(case: Case) -> None:
    """Bit for bit, or within the case's tolerance."""
    assert case.name in GOLDEN.outputs, "a new case: record it on a GPU (CONTRIBUTING.md)"
    assert case.fingerprint() == GOLDEN.inputs[case.name], "its inputs changed: record it again"

    assert not differences(case, GOLDEN.outputs[case.name])


def test_the_golden_data_holds_these_cases_alone() -> None:
    """Each case is there once, no other is, and the file says where it comes from."""
    assert len(BY_NAME) == len(CASES)
    assert GOLDEN.outputs.keys() == BY_NAME.keys()
    assert {"gpu", "triton", "torch", "date", "command"} <= GOLDEN.machine.keys()
    assert "H200" in GOLDEN.machine["gpu"]


def test_the_corpus_is_wide() -> None:
    """Kernels by name; a tolerance is the exception, and each has a reason."""
    kernels = {(case.name.partition("/")[0], case.kernel.__name__) for case in CASES}

    assert len(kernels) >= 100
    exact = [case for case in CASES if case.within is None]
    assert len(exact) > len(CASES) * 3 / 4
    assert all(len(case.within.why) > 10 for case in CASES if case.within)


def _rounds_bfloat16_toward_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded = dtype.round

    def cut(self: dtype, x: Any) -> Any:
        if self is not dtypes.bfloat16:
            return rounded(self, x)
        return (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    monkeypatch.setattr(dtype, "round", cut)


def _rounds_to_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    def nearest(x: Any) -> Any:
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)

    monkeypatch.setattr(dot, "cut_to_tf32", nearest)


def _lets_fp8_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtype, "round", lambda self, x: x.astype(self.storage).astype(np.float32))


def _has_one_round_of_philox_less(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = random_numbers._rounds
    monkeypatch.setattr(random_numbers, "_rounds", lambda c, k0, k1, n: rounds(c, k0, k1, n - 1))


def _rounds_the_product_of_fma(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathematics, "fused_multiply_add", lambda x, y, z, t: x * y + z)


def _floors_integer_division(monkeypatch: pytest.MonkeyPatch) -> None:
    # as Python does, not C
    monkeypatch.setattr(np, "fmod", np.mod)


def _flushes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathematics, "flushed", lambda x: x)


WRONG: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (_rounds_bfloat16_toward_zero, "arithmetic/add_subtract_multiply-bfloat16"),
    (_rounds_bfloat16_toward_zero, "casts/cast-float32-bfloat16"),
    (_rounds_to_tf32, "dot/product_with_precision-tf32-left"),
    (_lets_fp8_overflow, "casts/cast-float32-float8_e4m3fn"),
    (_has_one_round_of_philox_less, "random_numbers/bits-42"),
    (_rounds_the_product_of_fma, "arithmetic/fused_multiply_add-float32"),
    (_floors_integer_division, "division/floor_divide_and_remainder-int32"),
    (_flushes_nothing, "functions/sqrt"),
]


@pytest.mark.parametrize(("spoil", "name"), WRONG, ids=lambda x: getattr(x, "__name__", x))
def test_a_wrong_simulator_is_caught(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pytest.MonkeyPatch], None], name: str
) -> None:
    """One flipped rule, and the case that is there for it fails."""
    spoil(monkeypatch)

    assert differences(BY_NAME[name], GOLDEN.outputs[name])


@pytest.mark.parametrize(
    ("got", "want", "within", "differs"),
    [
        ([1.0], [1.0], None, False),
        ([float("nan")], [float("nan")], None, False),
        ([0.0], [-0.0], None, True),
        ([1.0], [1.0 + 2**-23], None, True),
        ([1.0], [1.0 + 2**-23], Within("one unit", ulps=1), False),
        ([1.0], [1.0 + 2**-22], Within("one unit", ulps=1), True),
        ([0.0], [1e-7], Within("absolute", atol=1e-6), False),
        ([0.0], [1e-5], Within("absolute", atol=1e-6), True),
        ([float("inf")], [3e38], Within("large", ulps=2**30), True),
        ([float("nan")], [1.0], Within("large", ulps=2**30), True),
    ],
)
def test_differences(
    got: list[float], want: list[float], within: Within | None, differs: bool
) -> None:
    """Bits where exact, units in the last place of float32 else; NaN is NaN, whatever is in it."""
    text = golden.difference(torch.tensor(got), torch.tensor(want), within)

    assert bool(text) is differs


def test_dtypes_and_shapes_differ_too() -> None:
    """Equal values of another type are another result."""
    one = torch.ones(2)

    assert "float64" in golden.difference(one.double(), one, None)
    assert "[1]" in golden.difference(one[:1], one, None)


def test_golden_data_survives_its_file(tmp_path: Path) -> None:
    """Every dtype, bit for bit."""
    tensors = {
        name: inputs.numbers(name, 16)
        for name in ("bool", "int8", "uint64", "float16", "bfloat16", "float8_e5m2", "float64")
    }
    path = tmp_path / "golden.json"

    golden.write(path, golden.Golden({"gpu": "none"}, {"a/b": 7}, {"a/b": tensors}))

    read = golden.read(path)
    assert read.machine == {"gpu": "none"}
    assert read.inputs == {"a/b": 7}
    assert {k: raw(v) for k, v in read.outputs["a/b"].items()} == {
        k: raw(v) for k, v in tensors.items()
    }


def test_inputs_hold_what_breaks_kernels() -> None:
    """NaN, infinities, both zeros, subnormals, limits; outputs begin as garbage."""
    x = inputs.floats("float32")
    n = inputs.integers("int32")

    assert x.isnan().any()
    assert (x == float("inf")).any()
    assert ((x == 0) & x.signbit()).any()
    assert ((x != 0) & (x.abs() < torch.finfo(torch.float32).tiny)).any()
    assert {2**31 - 1, -(2**31), 0, -1} <= set(n.tolist())
    assert (out("int32", 4).before == 0x55555555).all()


@pytest.mark.triton
def test_tritons_interpreter_gives_the_same(tmp_path: Path) -> None:
    """Where it is right: the cases that do not say why it is wrong."""
    path = tmp_path / "golden.json"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.corpus.record", str(path)]

    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr[-2000:]
    recorded = golden.read(path).outputs
    wrong = [text for name, want in recorded.items() for text in differences(BY_NAME[name], want)]
    assert not wrong
    assert len(recorded) > len(CASES) / 4
