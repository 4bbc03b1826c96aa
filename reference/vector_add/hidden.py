"""Cases of vector_add that run only in grading."""

from grader.spec import Case

CASES = (
    Case(
        {"n": 31},
        "float32",
        layout="offset",
        visibility="hidden",
        why="fewer elements than one warp has threads",
    ),
    Case({"n": 12_289}, "float16", visibility="hidden", why="one element in the last block"),
    Case({"n": 8191}, "bfloat16", visibility="hidden", why="one element short of whole blocks"),
)
