"""Cases of profile that run only in grading."""

from grader.spec import scenario_case

CASES = (
    scenario_case(
        "cdist-time",
        why="self times where operators call each other",
        visibility="hidden",
        timeout_s=60,
    ),
    scenario_case(
        "softmax-order",
        why="the order where the inner operator takes longer",
        visibility="hidden",
        timeout_s=60,
    ),
)
