"""Cases of performance_model that run only in grading."""

from grader.spec import scenario_case

CASES = tuple(
    scenario_case(f"{function}-hidden", why=why, visibility="hidden", timeout_s=10)
    for function, why in {
        "occupancy": "other blocks than those you saw",
        "tile_traffic": "other matrices and tiles than those you saw",
        "softmax_traffic": "other matrices than those you saw",
        "waves": "other grids than those you saw",
        "intensity": "other kernels than those you saw",
        "bank_conflicts": "other shared-memory addresses than those you saw",
        "sectors": "other global-memory addresses than those you saw",
    }.items()
)
