"""Cases of cuda_gelu that students do not see."""

from __future__ import annotations

from grader.spec import scenario_case

CASES = (
    scenario_case(
        "other-sizes",
        "sizes that are not among the public ones",
        scalars={"cols": 3001},
        timeout_s=150,
        visibility="hidden",
    ),
    scenario_case(
        "bounds-other-sizes",
        "bounds at sizes that are not among the public ones",
        scalars={"cols": 769, "on_host": True},
        timeout_s=150,
        visibility="hidden",
    ),
)
