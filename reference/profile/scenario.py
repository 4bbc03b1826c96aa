"""Has the submission profile work whose operators are known, and watches how it does so.

Watched: whether the profiler was on in each call of the work, and the rows of the student's own
profile, so that times can be compared to the microsecond although no two runs take the same.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch.autograd.profiler import profile as Profile  # noqa: N812  what every profiler of torch runs on

ENTRIES = ("profile",)
_OPERATOR = "aten::"
_MAX_ROWS = 200  # of all profiles together, and of what is returned: a log has 48 KiB
GPU_ELEMENTS = 2**24  # 64 MB: each kernel takes far longer than the clock's step
SLEEP_S = 0.02


@dataclass
class Watch:
    """What was seen.

    Attributes:
        runs: For each call of the work, whether the profiler was on.
        profiles: Those that have ended.
    """

    runs: list[bool] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)


def run(submission: ModuleType, case: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What profile() returned for the work of a case, and how it came about.

    Args:
        submission: Has the function.
        case: Such as "matmul-time": before the hyphen stands the work; "-gpu" at its end has it done
            on the GPU.
        arguments: "repeats": how often the work does the same again; "more": likewise, of a second
            kind.
    """
    # the profiler's own messages would stand among what the student's code printed
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    device = "cuda" if case.endswith("-gpu") else "cpu"
    work = _WORK[case.partition("-")[0]](arguments, device)
    watch = Watch()

    def watched() -> None:
        watch.runs.append(torch._C._autograd._profiler_enabled())  # noqa: SLF001  has no public name
        work()

    with _watched_profiles(watch):
        returned = submission.profile(watched)
    return {
        "n_runs": len(watch.runs),
        "n_profiled": sum(watch.runs),
        "first_was_profiled": watch.runs[:1] == [True],
        "n_profiles": len(watch.profiles),
        "profiles": _with_operators(watch.profiles),
        **_told(returned),
    }


@contextlib.contextmanager
def _watched_profiles(watch: Watch) -> Iterator[None]:
    leave: Any = Profile.__exit__

    def left(profile: Profile, *error: Any) -> Any:
        result = leave(profile, *error)
        # enabled=False records nothing; acc_events of torch.profiler ends the same one several times
        if profile.enabled and not any(profile is known for known in watch.profiles):
            watch.profiles.append(profile)
        return result

    with mock.patch.object(Profile, "__exit__", left):
        yield


def _with_operators(profiles: list[Any]) -> list[list[dict[str, Any]]]:
    """The rows of operators, by profile, of the last ones that have any.

    A schedule of torch.profiler ends several profiles, and the last of them may be empty: which one
    was returned shows in the rows alone.
    """
    told: list[list[dict[str, Any]]] = []
    n_left = _MAX_ROWS
    for profile in reversed(profiles):
        rows = [row for row in profile.key_averages() if row.key.startswith(_OPERATOR)][:n_left]
        n_left -= len(rows)
        if rows:
            told.insert(0, [_row(row) for row in rows])
        if n_left == 0:
            break
    return told


def _row(row: Any) -> dict[str, Any]:
    return {
        "name": row.key,
        "calls": row.count,
        "cpu_us": float(row.self_cpu_time_total),
        "total_us": float(row.cpu_time_total),
        "gpu_us": float(row.self_device_time_total),
    }


def _told(returned: Any) -> dict[str, Any]:
    """What was returned; of a dict the items in their order, tuples of all kinds as lists."""
    if not isinstance(returned, Mapping):
        return {"items": [], "other": returned, "is_dict": False}
    items = [
        [name, list(value) if isinstance(value, tuple) else value]
        for name, value in list(returned.items())[:_MAX_ROWS]
    ]
    return {"items": items, "other": None, "is_dict": True}


def plain_gelu(x: torch.Tensor) -> torch.Tensor:
    """GeLU by its formula, operator by operator, as in the course notes."""
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def _gelu(arguments: dict[str, Any], device: str) -> Callable[[], None]:
    """GeLU by its formula "repeats" times, then the built-in one "more" times."""
    x = torch.ones(GPU_ELEMENTS if device == "cuda" else 1000, device=device)

    def work() -> None:
        for _ in range(arguments["repeats"]):
            plain_gelu(x)
        for _ in range(arguments["more"]):
            torch.nn.functional.gelu(x)

    return work


def _softmax(arguments: dict[str, Any], device: str) -> Callable[[], None]:
    x = torch.ones(200, 1000, device=device)

    def work() -> None:
        for _ in range(arguments["repeats"]):
            torch.softmax(x, dim=-1)

    return work


def _matmul(arguments: dict[str, Any], device: str) -> Callable[[], None]:
    """Products of two sizes."""
    small, large = torch.ones(32, 48, device=device), torch.ones(160, 160, device=device)

    def work() -> None:
        for _ in range(arguments["repeats"]):
            small @ small.mT
        for _ in range(arguments["more"]):
            large @ large

    return work


def _cdist(arguments: dict[str, Any], device: str) -> Callable[[], None]:
    """Distances: one operator that calls many others."""
    x = torch.ones(40, 8, device=device)

    def work() -> None:
        for _ in range(arguments["repeats"]):
            torch.cdist(x, x)

    return work


def _mlp(arguments: dict[str, Any], device: str) -> Callable[[], None]:
    """Two linear layers with a ReLU between, forward and backward."""
    x = torch.ones(16, 32, device=device)
    first, second = torch.nn.Linear(32, 64, device=device), torch.nn.Linear(64, 8, device=device)

    def work() -> None:
        for _ in range(arguments["repeats"]):
            second(torch.relu(first(x))).sum().backward()

    return work


def _first(arguments: dict[str, Any], device: str) -> Callable[[], None]:
    """The first call fills a table that all calls use."""
    tables: list[torch.Tensor] = []

    def work() -> None:
        if not tables:
            tables.append(torch.linspace(0, 1, 500, device=device))
        for _ in range(arguments["repeats"]):
            torch.nn.functional.gelu(tables[0])

    return work


def _range(arguments: dict[str, Any], device: str) -> Callable[[], None]:
    """Work with a name of its own in the profile."""
    work = _gelu(arguments, device)

    def named() -> None:
        with torch.profiler.record_function("training step"):
            work()

    return named


def _sleep(_arguments: dict[str, Any], _device: str) -> Callable[[], None]:
    """Takes time, and no operator."""
    return lambda: time.sleep(SLEEP_S)


_WORK: dict[str, Callable[[dict[str, Any], str], Callable[[], None]]] = {
    "gelu": _gelu,
    "softmax": _softmax,
    "matmul": _matmul,
    "cdist": _cdist,
    "mlp": _mlp,
    "first": _first,
    "range": _range,
    "sleep": _sleep,
}
