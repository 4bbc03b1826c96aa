"""Cases of row_sum that run only in grading."""

from grader.spec import Case, Group

GROUPS: frozenset[Group] = frozenset({"forward", "memory"})

CASES = (
    Case(
        {"M": 11, "N": 8191},
        "float16",
        groups=GROUPS,
        visibility="hidden",
        why="one element short of whole blocks",
    ),
    Case(
        {"M": 4, "N": 6007},
        "bfloat16",
        groups=GROUPS,
        layout="strided",
        visibility="hidden",
        why="long rows with padding between them",
    ),
    Case(
        {"M": 3, "N": 4500},
        "float32",
        groups=GROUPS,
        variant="positive",
        visibility="hidden",
        why="sums of 4,500 positive values, in float32",
    ),
)
