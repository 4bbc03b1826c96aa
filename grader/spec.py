"""What a problem is: plain frozen data and a few functions. Judges and runs nothing, needs no torch.

A problem folder (``reference/<name>/problem.py``) exports one ``PROBLEM``. Dtypes are strings
("float32"), so that this module loads without torch.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

from grader.scenarios import Log, Mistake

if TYPE_CHECKING:
    import torch

Inputs: TypeAlias = "dict[str, torch.Tensor | int | float | bool]"

Kind = Literal["kernel", "scenario"]
Group = Literal["forward", "backward", "gradcheck", "memory"]
Phase = Literal["forward", "backward", "both"]
Baseline = Literal["eager", "builtin", "compile", "roofline"]
Layout = Literal["contiguous", "strided", "transposed", "expanded", "offset"]
GradLayout = Literal["random", "expanded", "strided"]
Visibility = Literal["public", "hidden"]
Fill = Literal["normal", "uniform", "integers"]
Dtype = Literal["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "bool"]

GROUPS: tuple[Group, ...] = get_args(Group)
FLOAT_DTYPES = frozenset({"float64", "float32", "float16", "bfloat16"})
ITEMSIZE = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "bool": 1,
}
MAX_GRADCHECK_ELEMENTS = 250  # slow mode perturbs every element twice

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _one_of(value: str, literal: object, what: str) -> None:
    allowed = get_args(literal)
    _require(value in allowed, f"{what} is {value!r}, must be one of {', '.join(allowed)}")


def _dims_text(dims: Mapping[str, int]) -> str:
    return "-".join(f"{axis}{size}" for axis, size in dims.items())


@dataclass(frozen=True)
class Tolerance:
    """``|got - want| <= atol + rtol * |want| + row * rms``, elementwise; NaN is always wrong.

    ``rms`` is the root mean square of the wanted values along the last axis. Where a row's values are
    sums of the same terms, rounding errs by a share of it, however small the row is beside others.
    """

    atol: float
    rtol: float
    row: float = 0.0

    def limit(self, want: torch.Tensor) -> torch.Tensor:
        """The allowed errors, shape of ``want``."""
        limit = self.atol + self.rtol * want.abs()
        if self.row:
            # an infinite value must not excuse its neighbours
            finite = want.nan_to_num(0.0, 0.0, 0.0)
            limit = limit + self.row * finite.square().mean(dim=-1, keepdim=True).sqrt()
        return limit


@dataclass(frozen=True)
class Traffic:
    """Elements read from and written to tensors by all launches of one call; an upper bound."""

    read: int
    written: int


@dataclass(frozen=True)
class Case:
    """One correctness case: sizes, dtype and layout, and why it is there.

    Attributes:
        dims: Axis name to size, such as ``{"M": 63, "N": 781}``.
        dtype: Dtype of the floating inputs.
        why: The mistake this case catches, in words a student understands.
        variant: Distinguishes cases of equal sizes ("negative-rows"); part of the id.
        scalars: Non-tensor arguments, such as ``{"eps": 1e-5}``.
        layout: Memory layout of the tensor inputs: "strided" pads the rows, "transposed" swaps
            the storage order of the last two axes, "expanded" repeats the first row with stride
            0, "offset" starts one element into its storage.
        grad_layout: "random" is a contiguous normal tensor, "expanded" is ones with stride 0 (what
            ``y.sum().backward()`` sends), "strided" has padded rows.
        groups: The test groups this case takes part in.
        visibility: Hidden cases run only in grading.
        timeout_s: Wall-clock limit of one request, in seconds; on CUDA compiling gets more on top.
    """

    dims: Mapping[str, int]
    dtype: Dtype
    why: str
    variant: str = ""
    scalars: Mapping[str, int | float | bool] = field(default_factory=dict)
    layout: Layout = "contiguous"
    grad_layout: GradLayout = "random"
    groups: frozenset[Group] = frozenset({"forward", "backward", "memory"})
    visibility: Visibility = "public"
    timeout_s: float = 20.0

    def __post_init__(self) -> None:
        _one_of(self.dtype, Dtype, f"case {self.id}: dtype")
        _one_of(self.layout, Layout, f"case {self.id}: layout")
        _one_of(self.grad_layout, GradLayout, f"case {self.id}: grad_layout")
        _one_of(self.visibility, Visibility, f"case {self.id}: visibility")
        for group in self.groups:
            _one_of(group, Group, f"case {self.id}: group")
        _require(bool(self.why), f"case {self.id}: say why it exists")
        _require(self.timeout_s > 0, f"case {self.id}: timeout_s must be positive")

    @property
    def id(self) -> str:
        """Name used in test ids, messages and scorecards, such as ``M63-N781-float16-strided``.

        A case without dims, as scenarios have, is named by its variant alone.
        """
        if not self.dims and self.variant:
            return self.variant
        parts = [_dims_text(self.dims), self.dtype]
        if self.layout != "contiguous":
            parts.append(self.layout)
        if self.grad_layout != "random":
            parts.append(f"grad_{self.grad_layout}")
        if self.variant:
            parts.append(self.variant)
        return "-".join(parts)

    @property
    def matmul_precision(self) -> Literal["high", "highest"]:
        """``torch.get_float32_matmul_precision()`` during the call: "high" allows TF32.

        "highest" is announced by the variant "ieee".
        """
        return "highest" if self.variant == "ieee" else "high"


@dataclass(frozen=True)
class InputSpec:
    """How to make one tensor argument of a benchmark call from a nonce, on the GPU.

    Attributes:
        stride: In elements; None means contiguous.
        fill: "normal" is N(0, 1), "uniform" is U[0, 1), "integers" is 0..9; then times scale plus
            shift.
        requires_grad: Its gradient is asked for in the phases backward and both.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype
    stride: tuple[int, ...] | None = None
    fill: Fill = "normal"
    scale: float = 1.0
    shift: float = 0.0
    requires_grad: bool = False


@dataclass(frozen=True)
class Threshold:
    """Points for speed: anchors (ratio, share of points), joined linearly, flat outside.

    Attributes:
        gpu: Model the anchors were calibrated on, as CUDA names it ("NVIDIA H200").
        baseline: What the ratio is against; "roofline" is a fraction of the measured limit.
    """

    gpu: str
    baseline: Baseline
    phase: Phase
    anchors: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        _one_of(self.baseline, Baseline, "threshold: baseline")
        _one_of(self.phase, Phase, "threshold: phase")
        ratios = [ratio for ratio, _ in self.anchors]
        shares = [share for _, share in self.anchors]
        _require(len(self.anchors) > 0, "threshold: no anchors")
        _require(
            all(a < b for a, b in itertools.pairwise(ratios)),
            f"threshold: ratios must increase, got {ratios}",
        )
        _require(
            shares == sorted(shares) and shares[0] >= 0 and shares[-1] <= 1,
            f"threshold: shares must rise within 0..1, got {shares}",
        )


@dataclass(frozen=True)
class BenchmarkCase:
    """One timed case; order of ``inputs`` then ``scalars`` is the order of the arguments."""

    dims: Mapping[str, int]
    dtype: Dtype
    inputs: tuple[InputSpec, ...]
    scalars: Mapping[str, int | float | bool] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ("forward",)
    thresholds: tuple[Threshold, ...] = ()

    @property
    def id(self) -> str:
        """Name used in scorecards and thresholds.json, such as ``M8192-N4096-float32``."""
        return f"{_dims_text(self.dims)}-{self.dtype}"


@dataclass(frozen=True)
class Problem:
    """One problem of the assignment.

    Attributes:
        name: Also the entry point, the stub's file name and the folder.
        points: What the problem is worth.
        make_inputs: ``(case, rng)`` to the positional arguments in order, contiguous; the grader
            applies ``case.layout``.
        oracle: Positional arguments to the wanted output(s), in float64 and differentiable.
        tolerance: ``(case, output)`` with output "y" (or "y0", "y1", ... when there are several),
            "grad:<input>" or "saved".
        min_bytes: ``(case or benchmark case, phase)`` to the bytes no kernel can avoid moving.
        flops: Likewise the floating-point operations.
        traffic: ``(case, phase)`` to the most elements the launches may read and write; checked in
            the memory group. Phase "backward" means forward and backward together.
        baselines: "eager" and "builtin" implementations for the benchmark; "compile" is
            torch.compile of eager, or of the function given for it.
        paid_against: What ``grader calibrate`` sets thresholds against.
        differentiable: Gradients of all floating tensor inputs are asked for.
        saved_shape: Shape of the one tensor the forward must save for backward, or None.
        saved_oracle: Positional arguments to what that tensor must hold, in float64; for the
            tolerance its name is "saved". Its dtype is the student's choice.
        own_share: Per phase, the fraction of GPU time that must be spent in the student's kernels.
        judge: Scenarios only: ``(case, arguments, log)`` to what is wrong, or None. The arguments
            are what ``make_inputs`` drew; the log comes from the student's process.
        not_checkable: ``(case, device)`` with device "cpu" or "cuda" to why this machine cannot
            check the case, or "". Asked in the verifier, never in the student's process.
    """

    name: str
    kind: Kind
    points: int
    cases: tuple[Case, ...]
    make_inputs: Callable[[Case, torch.Generator], Inputs]
    oracle: Callable[..., Any]
    tolerance: Callable[[Case, str], Tolerance]
    min_bytes: Callable[[Case | BenchmarkCase, Phase], int]
    flops: Callable[[Case | BenchmarkCase, Phase], int]
    traffic: Callable[[Case, Phase], Traffic]
    baselines: Mapping[str, Callable[..., Any] | None]
    differentiable: bool = False
    benchmark_cases: tuple[BenchmarkCase, ...] = ()
    saved_shape: Callable[[Case], tuple[int, ...] | None] = lambda _case: None
    saved_oracle: Callable[..., torch.Tensor] | None = None
    own_share: Mapping[Phase, float] = field(default_factory=dict)
    paid_against: Baseline = "compile"
    judge: Callable[[Case, Inputs, Log], Mistake | None] | None = None
    not_checkable: Callable[[Case, str], str] = lambda _case, _device: ""

    def __post_init__(self) -> None:
        _one_of(self.kind, Kind, f"{self.name}: kind")
        _require(
            _NAME.fullmatch(self.name) is not None,
            f"problem name {self.name!r} is not a lower-case Python name",
        )
        _require(self.points > 0, f"{self.name}: points must be positive")
        for what, ids in (
            ("case", [case.id for case in self.cases]),
            ("benchmark case", [case.id for case in self.benchmark_cases]),
        ):
            twice = sorted({i for i in ids if ids.count(i) > 1})
            _require(not twice, f"{self.name}: {what} ids used twice: {', '.join(twice)}")
        for case in self.cases:
            _require(
                self.saved_oracle is not None or self.saved_shape(case) is None,
                f"{self.name} [{case.id}]: has a saved_shape, but there is no saved_oracle",
            )
        if not self.differentiable:
            for case in self.cases:
                wrong = case.groups & {"backward", "gradcheck"}
                _require(
                    not wrong,
                    f"{self.name} [{case.id}]: not differentiable, but in group {sorted(wrong)}",
                )
        _require(
            (self.judge is not None) == (self.kind == "scenario"),
            f"{self.name}: a scenario has a judge, a kernel problem has none",
        )
        _one_of(self.paid_against, Baseline, f"{self.name}: paid_against")
        strangers = set(self.baselines) - {"eager", "builtin", "compile"}
        _require(not strangers, f"{self.name}: unknown baselines {sorted(strangers)}")
        if self.benchmark_cases:
            _require(any(self.baselines.values()), f"{self.name}: benchmarks need a baseline")

    def cases_in(self, group: Group) -> tuple[Case, ...]:
        """The cases of one test group, in order."""
        return tuple(case for case in self.cases if group in case.groups)


def scenario_case(name: str, why: str, **settings: Any) -> Case:
    """A case of a scenario: a name, a reason, and any of ``Case``'s other fields."""
    forward: frozenset[Group] = frozenset({"forward"})
    return Case(
        **{"dims": {}, "dtype": "float32", "variant": name, "groups": forward, **settings}, why=why
    )


def scenario(
    *,
    name: str,
    points: int,
    cases: tuple[Case, ...],
    judge: Callable[[Case, Inputs, Log], Mistake | None],
    make_inputs: Callable[[Case, torch.Generator], Inputs] = lambda case, _rng: dict(case.scalars),
    not_checkable: Callable[[Case, str], str] = lambda _case, _device: "",
) -> Problem:
    """A problem that is judged by what its ``scenario.py`` saw, and asks for no kernel.

    ``scenario.py`` lies beside problem.py, ships, and runs in the student's process. It defines

        ENTRIES = ("occupancy", ...)      functions the submission must have
        def run(submission, case, arguments) -> dict      submission: the imported module; case: the
                                                          case's id; arguments: by name, as drawn

    Args:
        name: As in ``Problem``.
        points: As in ``Problem``.
        cases: All in the group forward.
        judge: As in ``Problem``.
        make_inputs: Draws the arguments, numbers and bools; the case's scalars by default.
        not_checkable: As in ``Problem``.
    """

    def nothing(*_: object) -> NoReturn:
        raise TypeError(f"{name} is a scenario: it has no oracle, tolerance, traffic or work")

    return Problem(
        name=name,
        kind="scenario",
        points=points,
        cases=cases,
        make_inputs=make_inputs,
        oracle=nothing,
        tolerance=nothing,
        min_bytes=nothing,
        flops=nothing,
        traffic=nothing,
        baselines={},
        judge=judge,
        not_checkable=not_checkable,
    )
