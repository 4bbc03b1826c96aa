"""Points for speed: what one threshold pays for one ratio. Measures nothing, needs no torch.

``grader.score`` looks whether the correctness tests it needs have passed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grader.scorecard import ThresholdResult
from grader.spec import Group, Phase, Threshold

NEEDED_GROUPS: Mapping[Phase, tuple[Group, ...]] = {
    "forward": ("forward",),
    "backward": ("forward", "backward"),
    "both": ("forward", "backward"),
}
"""Groups in which no test of the dtype may have failed before the speed of a phase counts."""


@dataclass(frozen=True)
class Speed:
    """One threshold of one benchmark case, measured or not.

    Attributes:
        case: Id of the benchmark case.
        dtype: Its dtype; paid only if the correctness cases of this dtype passed.
        ratio: The ratio that counts: the median, or the lower bound when "unstable". None unless
            measured or unstable.
        status: "failed" is the submission's doing and pays 0; "not_measured" leaves the maximum.
        reason: Why, unless measured.
    """

    case: str
    dtype: str
    threshold: Threshold
    ratio: float | None
    status: Literal["measured", "unstable", "not_measured", "failed"] = "measured"
    reason: str = ""

    def __post_init__(self) -> None:
        has_ratio = self.ratio is not None and math.isfinite(self.ratio)
        if (self.status in {"measured", "unstable"}) != has_ratio:
            raise ValueError(f"{self.case}: {self.status} with ratio {self.ratio}")
        if self.status != "measured" and not self.reason:
            raise ValueError(f"{self.case}: {self.status} must say why")


def share(anchors: Sequence[tuple[float, float]], ratio: float) -> float:
    """Share of points for ``ratio``: anchors joined linearly, flat outside.

    Anchors ((1, 0), (2, 1)): ratio 1.5 pays 0.5, ratio 3 pays 1, ratio 0.9 pays 0.
    """
    if ratio <= anchors[0][0]:
        return anchors[0][1]
    for (ratio_0, share_0), (ratio_1, share_1) in itertools.pairwise(anchors):
        if ratio <= ratio_1:
            fraction = (ratio - ratio_0) / (ratio_1 - ratio_0)
            return share_0 + fraction * (share_1 - share_0)
    return anchors[-1][1]


def pay(
    speed: Speed, *, max_points: float, refused: str = "", unchecked: str = ""
) -> ThresholdResult:
    """Pay one threshold ``max_points * share(anchors, ratio)``.

    Args:
        speed: What was measured.
        max_points: What a share of 1 pays.
        refused: Why it pays nothing whatever the ratio (a correctness test failed); stays in the
            maximum.
        unchecked: Why it cannot be paid through no fault of the code; leaves the maximum.
    """
    fraction: float | None
    if speed.status == "not_measured":
        fraction, reason = None, speed.reason
    elif refused:
        fraction, reason = 0.0, refused
    elif unchecked:
        fraction, reason = None, unchecked
    elif speed.ratio is None:
        fraction, reason = 0.0, speed.reason
    else:
        fraction, reason = share(speed.threshold.anchors, speed.ratio), speed.reason
    return ThresholdResult(
        baseline=speed.threshold.baseline,
        phase=speed.threshold.phase,
        gpu=speed.threshold.gpu,
        anchors=speed.threshold.anchors,
        ratio=speed.ratio,
        share=fraction,
        points=max_points * (fraction or 0.0),
        max_points=max_points,
        reason=reason,
    )
