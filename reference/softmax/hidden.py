"""Cases of softmax that run only in grading."""

from grader.spec import Case

CASES = (
    Case(
        {"M": 40, "N": 1500},
        "bfloat16",
        visibility="hidden",
        why="more than one warp's worth of columns, in bfloat16",
    ),
    Case(
        {"M": 6, "N": 257},
        "float32",
        layout="strided",
        grad_layout="strided",
        visibility="hidden",
        why="input and gradient both padded, with different strides",
    ),
    Case(
        {"M": 12, "N": 999},
        "float16",
        variant="negative",
        visibility="hidden",
        why="all values negative, in float16",
    ),
    Case(
        {"M": 2, "N": 50_021},
        "bfloat16",
        grad_layout="strided",
        visibility="hidden",
        why="a long row in bfloat16, and its gradient padded",
    ),
)
