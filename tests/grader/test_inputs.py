"""grader.inputs: layouts keep the values, and lie between guard zones."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from grader.inputs import GUARD_BYTES, ROW_PAD, draw_grad, lay_out, rng_for
from grader.spec import Layout

VALUES = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("layout", [x for x in get_args(Layout) if x != "expanded"])
@pytest.mark.parametrize(
    "values", [VALUES, torch.arange(5), torch.zeros(0, 4), torch.ones(1, 1), torch.tensor(2.0)]
)
def test_layout_keeps_values(layout: Layout, values: torch.Tensor) -> None:
    """Laying a tensor out changes where its values are, not which they are."""
    assert torch.equal(lay_out(values, layout), values)


@pytest.mark.parametrize(
    ("layout", "stride", "offset_from_guard"),
    [
        ("contiguous", (4, 1), 0),
        ("strided", (4 + ROW_PAD, 1), 0),
        ("transposed", (1, 3), 0),
        ("expanded", (0, 1), 0),
        ("offset", (4, 1), 1),
    ],
)
def test_strides(layout: Layout, stride: tuple[int, int], offset_from_guard: int) -> None:
    """Each layout has the strides its name says."""
    tensor = lay_out(VALUES, layout)

    assert tensor.stride() == stride
    assert tensor.storage_offset() == GUARD_BYTES // 4 + offset_from_guard


def test_expanded_repeats_the_first_row() -> None:
    """An expanded case has one row in memory, seen M times."""
    assert torch.equal(lay_out(VALUES, "expanded"), VALUES[:1].repeat(3, 1))


def test_vector_layouts() -> None:
    """A strided vector takes every second element."""
    assert lay_out(torch.arange(5.0), "strided").stride() == (2,)


@pytest.mark.parametrize("layout", get_args(Layout))
def test_everything_outside_the_tensor_is_poison(layout: Layout) -> None:
    """Guard zones and padding are NaN, at least GUARD_BYTES on either side."""
    tensor = lay_out(VALUES, layout)
    storage = torch.empty(0).set_(tensor.untyped_storage())
    inside = torch.zeros(len(storage), dtype=torch.bool)
    inside.as_strided(tensor.shape, tensor.stride(), int(tensor.storage_offset())).fill_(True)

    assert storage[~inside].isnan().all()
    assert not storage[inside].isnan().any()
    assert not inside[: GUARD_BYTES // 4].any()
    assert not inside[-(GUARD_BYTES // 4) :].any()


def test_grad_layouts() -> None:
    """An expanded gradient is what y.sum().backward() sends; a strided one has padded rows."""
    output = torch.zeros(3, 4, dtype=torch.float16)

    expanded = draw_grad(output, "expanded", rng_for(1))
    strided = draw_grad(output, "strided", rng_for(1))

    assert expanded.stride() == (0, 0)
    assert (expanded == 1).all()
    assert strided.stride() == (4 + ROW_PAD, 1)
    assert {expanded.dtype, strided.dtype} == {torch.float16}


def test_rng_depends_on_all_its_names() -> None:
    """The same names give the same numbers, others do not."""

    def numbers(*names: str, seed: int = 1) -> list[float]:
        drawn: list[float] = torch.rand(3, generator=rng_for(seed, *names)).tolist()
        return drawn

    assert numbers("a", "b") == numbers("a", "b")
    assert numbers("a", "b") != numbers("a", "c")
    assert numbers("a", "b") != numbers("a", "b", seed=2)
