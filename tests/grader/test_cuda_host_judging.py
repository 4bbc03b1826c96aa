"""The judge of CUDA C++ problems: what a machine lacks, and logs that were made up."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from grader.cuda_host import judging
from grader.cuda_host.drawing import MAX_SHOWN, draw, shown_places
from grader.scenarios import Mistake
from grader.scorecard import Verdict
from grader.spec import Case, Tolerance, scenario_case

GOOD: dict[str, Any] = {
    "raised": "",
    "returned": {"kind": "Tensor", "shape": [3], "dtype": "float32", "values": []},
    "is_changed": False,
    "pending": "",
    "todo": "",
    "refusal": None,
    "dtype": "",
    "n_calls": 1,
    "n_runs": 0,
    "n_launches": 0,
    "runs": [],
}
RUN: dict[str, Any] = {
    "ended": "",
    "timed_out": False,
    "pending": "",
    "launches": [{"kernel": "k", "grid": [1, 1, 1], "block": [4, 1, 1], "refused": False}],
    "findings": [],
}
FINDING: dict[str, Any] = {
    "kind": "out_of_bounds",
    "is_write": False,
    "tensor": "0",
    "n_elements": 3,
    "index": 3,
    "count": 2,
    "kernel": "k",
    "block": [0, 0, 0],
    "thread": [3, 0, 0],
    "line": 7,
}


def case(**scalars: float) -> Case:
    """Of three elements."""
    return scenario_case("three", "a reason", scalars={"cols": 3, **scalars})


def judged(log: dict[str, Any], **scalars: float) -> Mistake | None:
    """What the judge says of a log, x * x being wanted."""
    one = case(**scalars)
    arguments = judging.make_inputs(one, torch.Generator().manual_seed(1))
    return judging.judge(one, arguments, log, torch.square, Tolerance(1e-12, 1e-6))


def returned(y: torch.Tensor, **form: Any) -> dict[str, Any]:
    """A log with these values."""
    data = base64.b64encode(y.numpy().tobytes()).decode()
    return {**GOOD, "returned": {**GOOD["returned"], "values": [data], **form}}


def x_of(**scalars: float) -> torch.Tensor:
    """The input that the judge draws."""
    return draw(judging.make_inputs(case(**scalars), torch.Generator().manual_seed(1)))


def test_right_values_pass_and_wrong_ones_do_not() -> None:
    """Within the tolerance or not; the message has x, what was got and what was wanted."""
    x = x_of()

    assert judged(returned(x * x)) is None
    mistake = judged(returned(x + x))
    assert mistake is not None
    assert mistake.verdict == "wrong_value"
    assert mistake.what == "3 of 3 values are wrong"
    assert f"x is {float(x[0]):.6g}, got {float(2 * x[0]):.6g}" in mistake.details[0]


def test_nan_and_what_nobody_wrote_are_told_apart() -> None:
    """The bits of the poison say that nothing was written."""
    x = x_of()
    nan = (x * x).index_fill(0, torch.tensor([1]), torch.nan)
    bits = (x * x).view(torch.int32).clone()
    bits[2] = 0x7FC0DEAD

    non_finite, unwritten = judged(returned(nan)), judged(returned(bits))

    assert non_finite is not None
    assert non_finite.verdict == "non_finite"
    assert unwritten is not None
    assert unwritten.verdict == "never_written"
    assert "from index 2 to index 2" in unwritten.what


@pytest.mark.parametrize(
    ("form", "verdict"),
    [
        ({"kind": "list"}, "wrong_type"),
        ({"shape": [3, 1]}, "wrong_shape"),
        ({"dtype": "float64"}, "wrong_dtype"),
        ({"values": []}, "protocol_error"),
        ({"values": ["?"]}, "protocol_error"),
        ({"values": ["AAA="]}, "protocol_error"),
    ],
)
def test_a_result_of_another_form_has_its_verdict(form: dict[str, Any], verdict: str) -> None:
    """Type, shape and dtype first; values that are none are a forger's."""
    mistake = judged(returned(x_of() ** 2, **form))

    assert mistake is not None
    assert mistake.verdict == verdict


def test_bounds_count_where_the_case_is_about_them() -> None:
    """As on a GPU, a case about values says nothing of a read behind the tensor."""
    x = x_of()
    log = {**returned(x * x), "runs": [{**RUN, "findings": [FINDING]}]}

    mistake = judged(log, on_host=True)

    assert judged(log) is None
    assert mistake is not None
    assert mistake.verdict == "out_of_bounds"
    assert mistake.what == "line 7: read outside x (3 elements) at index 3"
    assert mistake.details[0] == "by block 0, thread 3 of k; 2 such accesses in all"
    assert mistake.details[1] == "launched: k<<<1, 4>>>, 4 threads"


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({"todo": "TODO: implement k"}, "not_implemented"),
        ({"refusal": {"kind": "compile_error", "lines": ["a.cu:1: error"]}}, "compile_error"),
        ({"refusal": {"kind": "compile_error", "lines": []}}, "compile_error"),
        ({"refusal": {"kind": "unsupported", "lines": ["__shfl_sync"]}}, "not_checkable"),
        ({"refusal": {"kind": "timeout", "lines": ["too long"]}}, "timeout"),
        ({"refusal": {"kind": "foreign", "lines": ["no kernel"]}}, "foreign_kernel"),
        ({"dtype": "a tensor of dtype torch.float16"}, "wrong_dtype"),
        ({"raised": "RuntimeError: x is too large"}, "crashed"),
        ({"n_calls": 0}, "foreign_kernel"),
        ({"runs": [{**RUN, "launches": []}], "n_runs": 1}, "foreign_kernel"),
        ({"runs": [{**RUN, "ended": "signal 11 (SIGSEGV)"}]}, "crashed"),
        ({"runs": [{**RUN, "ended": "it took over 10 s", "timed_out": True}]}, "timeout"),
        ({"runs": [{**RUN, "pending": "invalid configuration argument"}]}, "crashed"),
        ({"pending": "invalid configuration argument"}, "crashed"),
        ({"runs": [{**RUN, "findings": [{**FINDING, "kind": "on_cpu"}]}]}, "crashed"),
        ({"is_changed": True}, "modified_input"),
    ],
)
def test_each_end_has_its_verdict(other: dict[str, Any], verdict: str) -> None:
    """However a case ended, with values that would be right."""
    mistake = judged({**returned(x_of() ** 2), **other})

    assert mistake is not None
    assert mistake.verdict == verdict
    assert mistake.what


def test_an_empty_x_needs_no_kernel() -> None:
    """It may be answered in Python; one element needs a kernel, and so does what only compiles."""
    empty = {**returned(x_of(cols=0)), "n_calls": 0}
    empty["returned"] = {**empty["returned"], "shape": [0], "values": []}
    one = {**returned(x_of(cols=1) ** 2, shape=[1]), "n_calls": 0}

    assert judged(empty, cols=0) is None
    for mistake in (judged(one, cols=1), judged(empty, cols=0, compiles=True)):
        assert mistake is not None
        assert mistake.verdict == "foreign_kernel"


@pytest.mark.parametrize(
    "other",
    [
        {"runs": [{**RUN, "launches": [{**RUN["launches"][0], "grid": []}]}]},
        {"runs": [{**RUN, "findings": [{**FINDING, "thread": [1]}]}]},
        {"runs": [{**RUN, "findings": [{**FINDING, "index": 10**30}]}]},
        {"n_calls": "many"},
        {"stranger": 1},
        {"returned": {"kind": "Tensor"}},
    ],
)
def test_a_log_of_another_form_is_not_judged(other: dict[str, Any]) -> None:
    """The grader makes a protocol error of it."""
    with pytest.raises(ValidationError):
        judged({**returned(x_of() ** 2), **other}, on_host=True)


def test_an_unknown_kind_of_finding_finds_nothing() -> None:
    """A forger's word is not looked up."""
    run = {**RUN, "findings": [{**FINDING, "kind": "nonsense"}]}

    assert judged({**returned(x_of() ** 2), "runs": [run]}, on_host=True) is None


def test_a_refusal_of_x_counts_where_x_may_be_refused() -> None:
    """And where the log says that the call raised."""
    log = {**GOOD, "returned": None, "raised": "RuntimeError: x must be contiguous"}

    assert judged(log, may_refuse=True) is None
    for scalars in ({}, {"on_host": True}):
        mistake = judged(log, **scalars)
        assert mistake is not None
        assert mistake.verdict == "crashed"
        assert "x must be contiguous" in mistake.what


NASTY: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**400, -(10**400), 1.5, float("inf"), float("nan")),
    *("", "x" * 5000, "\ud800", [], [[]], [1, 2, 3, 4], {}, {"kind": "on_cpu"}),
)


def changed(value: Any, path: tuple[Any, ...], put: Any) -> Any:
    """A copy with what lies at the path replaced."""
    if not path:
        return put
    first, *rest = path
    if isinstance(value, dict):
        return {**value, first: changed(value[first], tuple(rest), put)}
    return [changed(v, tuple(rest), put) if i == first else v for i, v in enumerate(value)]


def paths(value: Any) -> list[tuple[Any, ...]]:
    """Every place in a log."""
    if not isinstance(value, dict | list):
        return [()]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [(), *((key, *path) for key, item in inner for path in paths(item))]


@pytest.mark.parametrize(
    "scalars", [{}, {"on_host": True}, {"compiles": True}, {"may_refuse": True}]
)
def test_no_forged_log_breaks_the_judge(scalars: dict[str, float]) -> None:
    """Whatever stands in whatever place: a verdict, or a form that is refused."""
    run = {**RUN, "findings": [FINDING, {**FINDING, "kind": "race"}]}
    refusal = {"kind": "compile_error", "lines": ["a line"]}
    good = {**returned(x_of() ** 2), "runs": [run], "n_runs": 1, "n_launches": 1}
    n_judged = 0

    for log in (good, {**good, "refusal": refusal}, {**good, "returned": None, "raised": "E: x"}):
        for path in paths(log):
            for put in NASTY:
                try:
                    mistake = judged(changed(log, path, put), **scalars)
                except ValidationError:
                    continue
                n_judged += 1
                assert mistake is None or Verdict(mistake.verdict)

    assert n_judged > 100


@pytest.mark.parametrize(
    ("has", "device", "scalars", "said"),
    [
        ({"g++"}, "cpu", {}, ""),
        ({"clang++"}, "cpu", {}, ""),
        (set(), "cpu", {}, "there is no g++ or clang++ here"),
        ({"nvcc"}, "cpu", {}, "there is no g++ or clang++ here"),
        ({"g++"}, "cpu", {"compiles": True}, "nvcc is not installed"),
        ({"g++", "nvcc"}, "cpu", {"compiles": True}, ""),
        ({"g++", "nvcc", "ninja"}, "cuda", {}, ""),
        ({"g++", "ninja"}, "cuda", {}, "nvcc is not installed"),
        ({"g++", "ninja"}, "cuda", {"on_host": True}, ""),
        ({"nvcc", "ninja"}, "cuda", {"on_host": True}, "there is no g++ or clang++ here"),
    ],
)
def test_what_a_machine_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch,
    has: set[str],
    device: str,
    scalars: dict[str, bool],
    said: str,
) -> None:
    """Never passed: a case that cannot be checked here says what is missing."""
    monkeypatch.setattr("shutil.which", lambda name: name if name in has else None)

    got = judging.not_checkable(case(**scalars), device)

    assert (said in got) if said else not got


def test_of_many_values_some_are_looked_at() -> None:
    """All of few; of many the first, the last, and the same ones on both sides of the line."""
    assert shown_places(5, 1).tolist() == [0, 1, 2, 3, 4]
    places = shown_places(10**6, 1)
    assert places.tolist() == shown_places(10**6, 1).tolist()
    assert {0, 1, 999_999} <= set(places.tolist())
    assert len(places) == MAX_SHOWN
    assert places.tolist() == sorted(places.tolist())


def test_what_has_gaps_has_them_on_every_device() -> None:
    """On the meta device as on a GPU: a copy would have closed them."""
    arguments = judging.make_inputs(case(step=2), torch.Generator().manual_seed(1))

    assert draw(arguments).stride() == draw(arguments, "meta").stride() == (2,)


def test_a_scalar_that_nobody_knows_is_an_error_of_the_course() -> None:
    """A misspelt one would be ignored."""
    with pytest.raises(ValueError, match="unknown scalars"):
        judging.make_inputs(case(colls=3), torch.Generator())
