"""Cases of matmul_relu that run only in grading."""

from grader.spec import Case

CASES = (
    Case(
        {"M": 129, "N": 65, "K": 31},
        "float16",
        visibility="hidden",
        why="one row and one column more than whole tiles",
    ),
    Case(
        {"M": 70, "N": 1, "K": 130},
        "float32",
        visibility="hidden",
        why="a single column: the gradient of a is an outer product",
    ),
    Case(
        {"M": 24, "N": 20, "K": 2500},
        "float16",
        layout="transposed",
        visibility="hidden",
        why="a longer sum, and transposed",
    ),
    Case(
        {"M": 17, "N": 160, "K": 48},
        "bfloat16",
        layout="transposed",
        visibility="hidden",
        why="more tiles across than down, transposed",
    ),
    Case(
        {"M": 31, "N": 90, "K": 200},
        "float32",
        layout="strided",
        grad_layout="strided",
        visibility="hidden",
        why="factors and gradient all padded",
    ),
)
