"""Cases of benchmark that run only in grading."""

from grader.spec import scenario_case

CASES = (
    scenario_case(
        "hidden-busy",
        why="everything at once: a busy GPU, a slow first call, and an outlier",
        scalars={"num_warmups": 4, "num_trials": 12, "pending_us": 800_000, "outlier": 6.0},
        visibility="hidden",
        timeout_s=10,
    ),
    scenario_case(
        "summarize-hidden",
        why="times that you have not seen, one of them an outlier",
        scalars={"n": 12, "outlier": 20.0},
        visibility="hidden",
        timeout_s=10,
    ),
)
