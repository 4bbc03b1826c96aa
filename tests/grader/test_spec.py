"""What a problem is, and what it may not be."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from grader.spec import ITEMSIZE, BenchmarkCase, Case, Dtype, Problem, Threshold, Tolerance, Traffic


def a_case(**changes: Any) -> Case:
    """A plain case, but for ``changes``."""
    plain: dict[str, Any] = {"dims": {"M": 63, "N": 781}, "dtype": "float32", "why": "odd sizes"}
    return Case(**plain | changes)


def a_problem(**changes: Any) -> Problem:
    """A valid forward-only kernel problem, but for ``changes``."""
    plain: dict[str, Any] = {
        "name": "row_sum",
        "kind": "kernel",
        "points": 4,
        "cases": (a_case(groups=frozenset({"forward", "memory"})),),
        "make_inputs": lambda case, rng: {},
        "oracle": lambda: None,
        "tolerance": lambda case, output: Tolerance(1e-5, 1e-5),
        "min_bytes": lambda case, phase: 4,
        "flops": lambda case, phase: 1,
        "traffic": lambda case, phase: Traffic(1, 1),
        "baselines": {"eager": None},
    }
    return Problem(**plain | changes)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, "M63-N781-float32", id="sizes-and-dtype"),
        pytest.param({"layout": "strided"}, "M63-N781-float32-strided", id="layout"),
        pytest.param(
            {"grad_layout": "expanded"}, "M63-N781-float32-grad_expanded", id="gradient-layout"
        ),
        pytest.param(
            {"variant": "ieee", "layout": "offset", "grad_layout": "strided"},
            "M63-N781-float32-offset-grad_strided-ieee",
            id="all-in-order",
        ),
    ],
)
def test_a_case_is_named_by_what_distinguishes_it(changes: dict[str, Any], want: str) -> None:
    """Defaults are not in the name."""
    assert a_case(**changes).id == want


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"dtype": "fp32"}, "dtype is 'fp32', must be one of float64", id="dtype"),
        pytest.param({"layout": "padded"}, "layout is 'padded'", id="layout"),
        pytest.param({"grad_layout": "ones"}, "grad_layout is 'ones'", id="grad-layout"),
        pytest.param({"visibility": "secret"}, "visibility is 'secret'", id="visibility"),
        pytest.param({"groups": frozenset({"speed"})}, "group is 'speed'", id="group"),
        pytest.param({"why": ""}, "M63-N781-[a-z0-9]*: say why it exists", id="no-reason"),
        pytest.param({"timeout_s": 0.0}, "timeout_s must be positive", id="no-time"),
    ],
)
def test_a_wrong_case_is_refused_with_its_name(changes: dict[str, Any], message: str) -> None:
    """The message says which case, what, and what is allowed."""
    with pytest.raises(ValueError, match=message):
        a_case(**changes)


def test_a_valid_problem_is_accepted() -> None:
    """Cases are found by group, in order."""
    memory_only = a_case(variant="two", groups=frozenset({"memory"}))
    problem = a_problem(cases=(*a_problem().cases, memory_only))

    assert problem.cases_in("forward") == problem.cases[:1]
    assert problem.cases_in("memory") == problem.cases
    assert problem.cases_in("gradcheck") == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"name": "RowSum"}, "'RowSum' is not a lower-case Python name", id="name"),
        pytest.param({"points": 0}, "row_sum: points must be positive", id="no-points"),
        pytest.param({"kind": "essay"}, "kind is 'essay'", id="kind"),
        pytest.param(
            {"cases": (a_case(groups=frozenset({"forward"})),) * 2},
            "case ids used twice: M63-N781-float32",
            id="same-id-twice",
        ),
        pytest.param(
            {"cases": (a_case(),)},
            r"not differentiable, but in group \['backward'\]",
            id="backward",
        ),
        pytest.param(
            {"saved_shape": lambda case: (case.dims["M"],)},
            "has a saved_shape, but there is no saved_oracle",
            id="no-saved-oracle",
        ),
        pytest.param({"kind": "scenario"}, "a scenario has a judge", id="no-judge"),
        pytest.param(
            {"judge": lambda case, log: None}, "a kernel problem has none", id="kernel-judge"
        ),
        pytest.param(
            {
                "benchmark_cases": (BenchmarkCase(dims={"N": 8}, dtype="float32", inputs=()),),
                "baselines": {},
            },
            "benchmarks need a baseline",
            id="no-baseline",
        ),
    ],
)
def test_a_wrong_problem_is_refused_with_its_name(changes: dict[str, Any], message: str) -> None:
    """Course authors learn what to change when the file is loaded, not while grading."""
    with pytest.raises(ValueError, match=message):
        a_problem(**changes)


def test_a_differentiable_problem_may_have_gradients() -> None:
    """The same case that a forward-only problem refuses."""
    assert a_problem(differentiable=True, cases=(a_case(),)).cases_in("backward")


@pytest.mark.parametrize(
    ("anchors", "message"),
    [
        pytest.param((), "no anchors", id="none"),
        pytest.param(((2.0, 0.0), (1.0, 1.0)), "ratios must increase", id="falling-ratios"),
        pytest.param(((1.0, 0.0), (1.0, 1.0)), "ratios must increase", id="a-cliff"),
        pytest.param(((1.0, 0.5), (2.0, 0.1)), "shares must rise", id="faster-pays-less"),
        pytest.param(((1.0, 0.0), (2.0, 1.5)), "within 0..1", id="more-than-all"),
        pytest.param(((1.0, -0.5), (2.0, 1.0)), "within 0..1", id="less-than-nothing"),
    ],
)
def test_thresholds_must_rise(anchors: tuple[tuple[float, float], ...], message: str) -> None:
    """A faster kernel never earns less, and a step never falls off a cliff."""
    with pytest.raises(ValueError, match=message):
        Threshold(gpu="NVIDIA H200", baseline="eager", phase="forward", anchors=anchors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"baseline": "numpy"}, "baseline is 'numpy'", id="baseline"),
        pytest.param({"phase": "update"}, "phase is 'update'", id="phase"),
    ],
)
def test_thresholds_name_what_exists(changes: dict[str, Any], message: str) -> None:
    """A misspelt baseline or phase is refused."""
    plain: dict[str, Any] = {"gpu": "x", "baseline": "eager", "phase": "both"}
    with pytest.raises(ValueError, match=message):
        Threshold(anchors=((1.0, 1.0),), **plain | changes)


def test_every_dtype_has_an_item_size() -> None:
    """Traffic in bytes can be told for each."""
    assert set(ITEMSIZE) == set(get_args(Dtype))


def test_specs_cannot_be_changed() -> None:
    """One test cannot change what the next one sees."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        a_case().dtype = "float16"  # type: ignore[misc]
