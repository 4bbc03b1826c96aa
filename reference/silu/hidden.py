"""Cases of silu that run only in grading."""

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
        {"M": 3, "N": 100},
        "float16",
        variant="large",
        visibility="hidden",
        why="|x| up to 10,000 in float16, whose largest value is 65,504",
    ),
    Case(
        {"M": 11, "N": 1023},
        "bfloat16",
        layout="strided",
        grad_layout="strided",
        visibility="hidden",
        why="padded rows in x and in its gradient, one element short of a block",
    ),
)
