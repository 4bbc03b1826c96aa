"""Inputs come from the nonce alone, and the checksum sees every bit."""

from __future__ import annotations

import itertools

import pytest
import torch

from grader.measure import fill
from grader.measure.fill import content_hash, make_grad_outputs, make_inputs
from grader.spec import InputSpec

CPU = torch.device("cpu")
MASK = (1 << 64) - 1


def draw(spec: InputSpec, nonce: int = 7) -> torch.Tensor:
    """Make one tensor."""
    (tensor,) = make_inputs([spec], nonce, CPU)
    return tensor


def test_equal_nonces_give_equal_bits_and_others_do_not() -> None:
    """The nonce alone decides."""
    specs = [InputSpec("x", (5, 3), "float32"), InputSpec("w", (3,), "bfloat16")]

    first, second, other = (make_inputs(specs, nonce, CPU) for nonce in (1, 1, 2))

    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_two_tensors_of_one_call_differ() -> None:
    """Equal specs of one call are drawn one after the other."""
    a, b = make_inputs([InputSpec("a", (64,), "float32"), InputSpec("b", (64,), "float32")], 1, CPU)

    assert not torch.equal(a, b)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_normal_has_the_mean_and_deviation_asked_for(dtype: str) -> None:
    """Scale is the deviation, shift the mean: N(0, 1) * 2 + 3."""
    x = draw(InputSpec("x", (40_000,), dtype, scale=2.0, shift=3.0))  # type: ignore[arg-type]

    assert str(x.dtype) == f"torch.{dtype}"
    # five standard errors of the mean, 2 / sqrt(40000) each, and as much for rounding
    assert float(x.double().mean()) == pytest.approx(3, abs=0.1)
    assert float(x.double().std()) == pytest.approx(2, abs=0.1)


def test_uniform_lies_between_shift_and_shift_plus_scale() -> None:
    """U[0, 1) * 4 - 2 lies in [-2, 2)."""
    x = draw(InputSpec("x", (10_000,), "float32", fill="uniform", scale=4.0, shift=-2.0))

    assert -2 <= float(x.min()) < -1.9
    assert 1.9 < float(x.max()) <= 2


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "float32"])
def test_integers_are_the_ten_digits(dtype: str) -> None:
    """Integers are 0 to 9, then times 3 plus 1."""
    x = draw(InputSpec("x", (1000,), dtype, fill="integers", scale=3, shift=1))  # type: ignore[arg-type]

    assert set(x.tolist()) == {3 * digit + 1 for digit in range(10)}


def test_bool_is_both() -> None:
    """A mask has both values."""
    assert set(draw(InputSpec("m", (100,), "bool", fill="integers")).tolist()) == {False, True}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(InputSpec("i", (4,), "int64"), id="normal-integers"),
        pytest.param(InputSpec("i", (4,), "int64", fill="integers", scale=0.5), id="half-a-scale"),
        pytest.param(InputSpec("x", (4, 4), "float32", stride=(4,)), id="stride-too-short"),
    ],
)
def test_a_spec_that_cannot_be_is_refused_by_name(spec: InputSpec) -> None:
    """The message names the input."""
    with pytest.raises(ValueError, match=f"input {spec.name}"):
        draw(spec)


@pytest.mark.parametrize(
    "stride",
    [
        pytest.param(None, id="contiguous"),
        pytest.param((9, 1), id="padded-rows"),
        pytest.param((1, 4), id="transposed"),
        pytest.param((0, 1), id="expanded"),
    ],
)
def test_stride_is_as_asked(stride: tuple[int, int] | None) -> None:
    """Every layout is drawn as it is described, as a leaf."""
    x = draw(InputSpec("x", (4, 6), "float32", stride=stride, requires_grad=True))

    assert x.shape == (4, 6)
    assert x.stride() == (stride or (6, 1))
    assert x.is_leaf
    assert x.requires_grad
    assert bool(torch.isfinite(x).all())


def test_an_empty_tensor_is_drawn() -> None:
    """No rows is a size too."""
    assert draw(InputSpec("x", (0, 6), "float32")).shape == (0, 6)


def test_grad_output_is_unlike_the_input_of_the_same_nonce() -> None:
    """Knowing the inputs does not give the gradient away."""
    x = draw(InputSpec("x", (64,), "float32"), nonce=5)

    (grad,) = make_grad_outputs([((64,), torch.float32)], 5, CPU)
    (again,) = make_grad_outputs([((64,), torch.float32)], 5, CPU)

    assert torch.equal(grad, again)
    assert abs(float(torch.corrcoef(torch.stack([x.detach(), grad]))[0, 1])) < 0.6


def mix(word: int) -> int:
    """splitmix64's finaliser on Python's integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def test_words_are_mixed_as_published() -> None:
    """The torch arithmetic equals splitmix64 on Python's integers, sign bits included."""
    words = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 0x123456789ABCDEF], dtype=torch.int64)

    got = fill._mixed(words, 1)

    want = [
        mix(((int(word) & MASK) + (i + 1) * 0x9E3779B97F4A7C15) & MASK)
        for i, word in enumerate(words)
    ]
    assert [int(value) & MASK for value in got] == want


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("n", [1, 7, 8, 1000])
def test_any_flipped_bit_changes_the_hash(dtype: torch.dtype, n: int) -> None:
    """The first, a middle and the last byte count, in every dtype and with any tail."""
    raw = torch.arange(n * dtype.itemsize, dtype=torch.int64).remainder(100).to(torch.uint8)
    want = content_hash([raw.view(dtype)])

    for byte, bit in itertools.product({0, len(raw) // 2, len(raw) - 1}, (1, 128)):
        flipped = raw.clone()
        flipped[byte] ^= bit
        assert content_hash([flipped.view(dtype)]) != want


def test_order_shape_and_dtype_change_the_hash() -> None:
    """Two swapped values, two swapped tensors, another shape, another dtype: all differ."""
    x = torch.arange(64, dtype=torch.float32)
    swapped = x.clone()
    swapped[[3, 40]] = x[[40, 3]]
    y = x + 1

    hashes = {
        content_hash([x]),
        content_hash([swapped]),
        content_hash([x.reshape(8, 8)]),
        content_hash([x.view(torch.int32)]),
        content_hash([x, y]),
        content_hash([y, x]),
        content_hash([x, y[:0]]),
    }

    assert len(hashes) == 7


def test_layout_does_not_change_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view and its contiguous copy have one hash, however they are cut into pieces."""
    base = torch.randn(40, 33)
    views = [base.t(), base[:, 3:20], base[:1].expand(40, 33), base[1:], base[::2], base[0, 1:]]
    want = [content_hash([view.clone(memory_format=torch.contiguous_format)]) for view in views]

    assert [content_hash([view]) for view in views] == want
    monkeypatch.setattr(fill, "_PIECE_WORDS", 16)
    assert [content_hash([view]) for view in views] == want


def test_zeros_and_nan_have_hashes() -> None:
    """Nothing in the contents is special: -0.0 is not 0.0, and NaN equals itself."""
    nan = torch.full((5,), torch.nan)

    assert content_hash([torch.zeros(5)]) != content_hash([-torch.zeros(5)])
    assert content_hash([nan]) == content_hash([nan.clone()])
    assert content_hash([]) == 0
