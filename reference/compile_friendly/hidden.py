"""Cases of compile_friendly that run only in grading."""

from typing import Any

from grader.spec import Case, scenario_case


def _hidden(name: str, why: str, sizes: tuple[float, ...], **wanted: Any) -> Case:
    scalars = {"fresh": False, **wanted, **{f"size{i}": size for i, size in enumerate(sizes)}}
    return scenario_case(name, why=why, scalars=scalars, visibility="hidden", timeout_s=60)


CASES = (
    _hidden("clip-order", "a short gradient first, then a long one", (0.01, 8.0), max_graphs=1),
    _hidden(
        "rows-large",
        "more rows than were ever asked for, and no more operations",
        (20, 300),
        max_graphs=1,
        fresh=True,
    ),
    _hidden(
        "lengths-long",
        "a length far above the others: no mask of a fixed size",
        (7, 45),
        max_graphs=2,
    ),
    _hidden("lengths-falling", "lengths that only fall", (12, 10, 9, 4, 3), max_graphs=2),
)
