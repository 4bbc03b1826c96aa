"""Cases of rmsnorm that run only in grading."""

from grader.spec import Case

CASES = (
    Case(
        {"M": 70, "N": 1030},
        "bfloat16",
        scalars={"eps": 1e-6},
        visibility="hidden",
        why="a few elements more than a power of two, and another eps",
    ),
    Case(
        {"M": 6, "N": 129},
        "float16",
        scalars={"eps": 1e-5},
        grad_layout="expanded",
        visibility="hidden",
        why="a gradient with stride 0, in float16",
    ),
    Case(
        {"M": 257, "N": 33},
        "float32",
        scalars={"eps": 1e-5},
        layout="strided",
        grad_layout="strided",
        visibility="hidden",
        why="many padded rows, one more than a power of two",
    ),
    Case(
        {"M": 13, "N": 9000},
        "bfloat16",
        scalars={"eps": 1e-5},
        layout="strided",
        visibility="hidden",
        why="long rows, padded, in bfloat16",
    ),
)
