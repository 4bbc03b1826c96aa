"""Cases of gelu that run only in grading."""

from grader.spec import Case

CASES = (
    Case(
        {"M": 61, "N": 129},
        "float16",
        grad_layout="expanded",
        visibility="hidden",
        why="a gradient with stride 0, in float16",
    ),
    Case(
        {"M": 11, "N": 1023},
        "bfloat16",
        layout="strided",
        visibility="hidden",
        why="padded rows, one element short of a block",
    ),
    Case(
        {"M": 2, "N": 3000},
        "float32",
        layout="transposed",
        grad_layout="strided",
        visibility="hidden",
        why="x and its gradient with different strides",
    ),
)
