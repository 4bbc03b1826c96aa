"""The launch log says what Triton would compile: what it specialises on, and nothing more."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

from grader.simulator import Specialisation, lifted, load_module, recording
from grader.simulator.specialisation import Encoded, encoded
from grader.simulator.tensor_descriptors import TensorDescriptor

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, n, factor, BLOCK: tl.constexpr, ROUND: tl.constexpr = "none"):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x * factor, mask=offsets < n)


configs = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in [(64, 2), (128, 4), (256, 8)]]


@triton.autotune(configs, key=["n"])
@triton.heuristics({"ROUND": lambda args: "up" if args["BLOCK"] >= 128 else "none"})
@triton.jit
def tuned_kernel(x_ptr, n, factor, BLOCK: tl.constexpr, ROUND: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x * factor, mask=offsets < n)
"""


@pytest.fixture
def kernels(tmp_path: Path) -> ModuleType:
    """The kernels above, as a submission."""
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return load_module(path, name="kernels")


def launched(launch: object, *arguments: object, **options: object) -> Specialisation:
    """The specialisation of one launch of one program."""
    with recording() as log:
        launch[(1,)](*arguments, **options)  # type: ignore[index]  # a kernel
    (seen,) = log.launches
    assert seen.specialisation is not None
    return seen.specialisation


def test_a_launch_tells_all_that_triton_specialises_on(kernels: ModuleType) -> None:
    """Types and alignment of pointers, kinds of numbers, values of constants, options."""
    x = torch.zeros(80, dtype=torch.float16)

    seen = launched(kernels.scale_kernel, x, 80, 0.25, BLOCK=128, num_warps=2)

    assert seen.kernel == "scale_kernel"
    assert Path(seen.file).name == "kernels.py"
    assert KERNELS.splitlines()[seen.line - 1] == "@triton.jit"
    assert seen.arguments == {
        "x_ptr": ("aligned", "float16"),
        "n": ("int", 16),
        "factor": ("float", 0.5),
        "BLOCK": ("constant", 128),
        "ROUND": ("constant", "none"),
    }
    assert seen.options == {"num_warps": 2}
    assert (seen.config, seen.others) == ("", ())


@pytest.mark.parametrize(
    ("value", "constant", "want"),
    [
        pytest.param(1, False, ("int", 1), id="one"),
        pytest.param(-48, False, ("int", 16), id="negative-divisible-by-16"),
        pytest.param(0, False, ("int", 16), id="zero"),
        pytest.param(-7, False, ("int", 3), id="negative"),
        pytest.param(2**31 - 1, False, ("int", 3), id="last-of-32-bits"),
        pytest.param(2**31, False, ("int", 2**31 + 16), id="64-bits-divisible"),
        pytest.param(2**40 + 2, False, ("int", 2**31 + 3), id="64-bits"),
        pytest.param(2**63 + 1, False, ("int", 2**63 + 3), id="unsigned-64-bits"),
        pytest.param(True, False, ("bool", True), id="bool"),
        pytest.param(False, True, ("constant", False), id="constant-bool"),
        pytest.param(48, True, ("constant", 48), id="constant-int"),
        pytest.param(float("inf"), True, ("constant_float", "inf"), id="constant-infinity"),
        pytest.param(None, False, ("constant", None), id="none"),
        pytest.param((1, 5), False, ("tuple", [("int", 1), ("int", 3)]), id="tuple"),
        pytest.param({1}, True, ("other", "set"), id="cannot-be-told"),
    ],
)
def test_numbers_that_compile_alike_are_told_alike(
    value: object, constant: bool, want: Encoded
) -> None:
    """Triton looks at: is it 1, is it divisible by 16, how wide is it."""
    assert encoded(value, constant=constant) == want


def test_an_offset_pointer_is_not_aligned(kernels: ModuleType) -> None:
    """One float32 off the beginning is 4 bytes off; four are 16 and aligned again."""
    x = torch.zeros(80)

    off_by_one = launched(kernels.scale_kernel, x[1:], 79, 2.0, BLOCK=128)
    off_by_four = launched(kernels.scale_kernel, x[4:], 76, 2.0, BLOCK=128)

    assert off_by_one.arguments["x_ptr"] == ("pointer", "float32")
    assert off_by_four.arguments["x_ptr"] == ("aligned", "float32")


def test_a_descriptor_is_its_dtype_padding_and_block() -> None:
    """Triton compiles for these; shape and strides are given at run time."""
    x = torch.zeros(3, 40, 32, dtype=torch.bfloat16)

    plain = encoded(TensorDescriptor.from_tensor(x, [1, 16, 32]), constant=False)
    padded = encoded(TensorDescriptor.from_tensor(x[:2], [1, 16, 32], "nan"), constant=False)

    assert plain == ("descriptor", "bfloat16 zero 1 16 32")
    assert padded == ("descriptor", "bfloat16 nan 1 16 32")


def test_autotune_tells_of_every_config(kernels: ModuleType) -> None:
    """The config that ran, and of the others what differs, computed constants included."""
    seen = launched(kernels.tuned_kernel, torch.zeros(60), 60, 2.0)

    assert "BLOCK: 64" in seen.config
    assert seen.arguments["BLOCK"] == ("constant", 64)
    assert seen.arguments["ROUND"] == ("constant", "none")
    assert seen.options["num_warps"] == 2
    assert [(c.arguments["BLOCK"], c.arguments["ROUND"]) for c in seen.others] == [
        (("constant", 128), ("constant", "up")),
        (("constant", 256), ("constant", "up")),
    ]
    assert [c.options["num_warps"] for c in seen.others] == [4, 8]
    assert not any("x_ptr" in c.arguments for c in seen.others)


def test_with_lifted_precision_nothing_is_told(kernels: ModuleType) -> None:
    """The dtypes of such a launch are not those of the GPU."""
    with recording() as log, lifted():
        kernels.scale_kernel[(1,)](torch.zeros(64, dtype=torch.float64), 64, 2.0, BLOCK=64)

    assert [launch.specialisation for launch in log.launches] == [None]
