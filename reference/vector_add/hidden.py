"""Cases of vector_add that run only in grading."""

from grader.spec import Case, Group

GROUPS: frozenset[Group] = frozenset({"forward", "memory"})

CASES = (
    Case(
        {"n": 31},
        "float32",
        layout="offset",
        groups=GROUPS,
        visibility="hidden",
        why="fewer elements than one warp has threads",
    ),
    Case(
        {"n": 12_289},
        "float16",
        groups=GROUPS,
        visibility="hidden",
        why="one element in the last block",
    ),
    Case(
        {"n": 8191},
        "bfloat16",
        groups=GROUPS,
        visibility="hidden",
        why="one element short of whole blocks",
    ),
)
