"""thresholds.json: read, written, merged, refused; and thresholds from the reference's ratio."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from grader.measure.threshold_file import dump, from_reference, load, with_thresholds
from grader.spec import BenchmarkCase, InputSpec, Problem, Threshold, Tolerance, Traffic
from grader.thresholds import share

H200 = Threshold("NVIDIA H200", "eager", "forward", ((0.5, 0.0), (1.5, 1.0)))
PROBLEM = Problem(
    name="double",
    kind="kernel",
    points=8,
    cases=(),
    make_inputs=lambda _case, _rng: {},
    oracle=lambda x: 2 * x,
    tolerance=lambda _case, _output: Tolerance(0, 0),
    min_bytes=lambda _case, _phase: 32,
    flops=lambda _case, _phase: 4,
    traffic=lambda _case, _phase: Traffic(4, 4),
    baselines={"eager": torch.add, "builtin": None},
    benchmark_cases=(
        BenchmarkCase(
            {"N": 4},
            "float32",
            (InputSpec("x", (4,), "float32", requires_grad=True),),
            phases=("forward", "backward"),
        ),
    ),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """A round trip gives equal thresholds, and equal files whatever the order."""
    other = dataclasses.replace(H200, gpu="NVIDIA A100")
    path, again = tmp_path / "thresholds.json", tmp_path / "again.json"

    dump({"N4-float32": (H200, other)}, path)
    dump({"N4-float32": (other, H200)}, again)

    assert load(path) == {"N4-float32": (other, H200)}
    assert path.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("{", "Invalid JSON", id="not-json"),
        pytest.param(
            '{"N4-float32": [{"gpu": "g", "baseline": "eager", "phase": "forward"}]}',
            "anchors",
            id="no-anchors",
        ),
        pytest.param(
            '{"N4-float32": [{"gpu": "g", "baseline": "fast", "phase": "forward",'
            ' "anchors": [[1, 0]]}]}',
            "baseline",
            id="unknown-baseline",
        ),
        pytest.param(
            '{"N4-float32": [{"gpu": "g", "baseline": "eager", "phase": "forward",'
            ' "anchors": [[2, 0], [1, 1]]}]}',
            "ratios must increase",
            id="falling-ratios",
        ),
    ],
)
def test_a_malformed_file_is_refused_by_name(tmp_path: Path, text: str, match: str) -> None:
    """The message names the file, the place and what writes it."""
    path = tmp_path / "thresholds.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=match) as raised:
        load(path)
    assert str(path) in str(raised.value)
    assert "grader calibrate" in str(raised.value)


def test_thresholds_are_merged_into_their_case() -> None:
    """The file decides; cases it does not name have none."""
    merged = with_thresholds(PROBLEM, {"N4-float32": (H200,)})

    assert merged.benchmark_cases[0].thresholds == (H200,)
    assert with_thresholds(merged, {}).benchmark_cases[0].thresholds == ()


@pytest.mark.parametrize(
    ("case", "threshold", "match"),
    [
        pytest.param("N5-float32", H200, "benchmark cases are N4-float32", id="no-such-case"),
        pytest.param(
            "N4-float32", dataclasses.replace(H200, phase="both"), "phase", id="not-timed"
        ),
        pytest.param(
            "N4-float32", dataclasses.replace(H200, phase="backward"), "not paid", id="not-paid"
        ),
        pytest.param(
            "N4-float32", dataclasses.replace(H200, baseline="builtin"), "no such", id="no-baseline"
        ),
    ],
)
def test_what_could_never_be_paid_is_refused(case: str, threshold: Threshold, match: str) -> None:
    """A threshold without its case, phase or baseline would silently lose its points."""
    with pytest.raises(ValueError, match=match):
        with_thresholds(PROBLEM, {case: (threshold,)})


def test_a_threshold_given_twice_is_refused() -> None:
    """It would be paid twice."""
    with pytest.raises(ValueError, match="twice"):
        with_thresholds(PROBLEM, {"N4-float32": (H200, H200)})


@pytest.mark.parametrize("ratio", [0.04, 0.877, 1.0, 3.7])
def test_the_reference_has_ten_percent_to_spare(ratio: float) -> None:
    """The reference 9 % slower still earns all; half as fast loses most, but not all."""
    anchors = from_reference(ratio, gpu="G", baseline="eager", phase="forward").anchors

    assert share(anchors, ratio / 1.1) == 1
    assert 0.2 < share(anchors, ratio / 2) < 0.4
    assert share(anchors, ratio / 3) == 0
    # no cliff: 1 % of the ratio moves the share by under 2 %
    assert share(anchors, 0.7 * ratio) - share(anchors, 0.69 * ratio) < 0.02


@pytest.mark.parametrize("ratio", [0.0, -1.0, 0.0002])
def test_no_thresholds_from_a_ratio_that_is_none(ratio: float) -> None:
    """A reference that was not measured calibrates nothing."""
    with pytest.raises(ValueError, match="no thresholds from a ratio"):
        from_reference(ratio, gpu="G", baseline="eager", phase="forward")
