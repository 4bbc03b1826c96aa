"""Cases of flash_attention that run only in grading."""

from grader.spec import Case

CASES = (
    Case(
        {"B": 1, "NQ": 129, "NK": 129, "D": 64},
        "float16",
        variant="causal",
        scalars={"is_causal": True},
        visibility="hidden",
        why="one query and one key more than whole tiles, causal",
    ),
    Case(
        {"B": 3, "NQ": 37, "NK": 200, "D": 128},
        "bfloat16",
        scalars={"is_causal": False},
        layout="transposed",
        visibility="hidden",
        why="d = 128 in bfloat16, stored with d before n",
    ),
    Case(
        {"B": 2, "NQ": 90, "NK": 33, "D": 32},
        "float32",
        variant="causal",
        scalars={"is_causal": True},
        layout="strided",
        grad_layout="strided",
        visibility="hidden",
        why="tensors and gradient all padded, causal with more queries than keys",
    ),
    Case(
        {"B": 1, "NQ": 80, "NK": 90, "D": 16},
        "float32",
        variant="shifted",
        scalars={"is_causal": False},
        visibility="hidden",
        why="scores near +128 and -128 at d = 16",
    ),
)
