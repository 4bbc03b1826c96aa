"""What torch.cuda answers on a machine with one GPU, where there is none: nothing takes time there."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable
from typing import Any, Self

import torch

DEVICE = torch.device("cuda", 0)


class _Stream:
    """torch.cuda.Stream where everything happens at once."""

    device = DEVICE
    cuda_stream = stream_id = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing is ever pending."""

    def wait_event(self, event: Any) -> None:
        """Nothing is ever pending."""

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or _Event()

    def query(self) -> bool:
        """All work is done."""
        return True


class _Event:
    """torch.cuda.Event that knows no time."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def wait(self, stream: Any = None) -> None:
        """Nothing is ever pending."""

    def query(self) -> bool:
        """It has happened."""
        return True

    def elapsed_time(self, end: Any) -> float:
        """No time passes in a simulator.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("a simulator has no time to measure; run this on a GPU")


_PROPERTIES = types.SimpleNamespace(
    name="NVIDIA A100-SXM4-80GB",
    major=8,
    minor=0,
    total_memory=80 << 30,
    multi_processor_count=108,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=163 << 10,
    shared_memory_per_multiprocessor=164 << 10,
    L2_cache_size=40 << 20,
)


def _asked_by_torch() -> bool:
    """Whether torch itself wants to know: it would go on to use a GPU that is not there."""
    asker = str(sys._getframe(2).f_globals.get("__name__"))  # noqa: SLF001  the caller's caller
    return asker.partition(".")[0] == "torch"


def functions() -> dict[str, Any]:
    """What torch.cuda answers on a machine with one A100 (the GPU of the course notes)."""
    stream = _Stream()

    def nothing() -> Callable[..., None]:
        # one function under two names is refused by dynamo, should it be imported meanwhile
        return lambda *_args, **_kwargs: None

    def properties(device: Any = None) -> Any:
        return real_properties(device) if _asked_by_torch() else _PROPERTIES

    real_properties = torch.cuda.get_device_properties
    return {
        "is_available": lambda: not _asked_by_torch(),
        "is_initialized": lambda: not _asked_by_torch(),
        "init": nothing(),
        "device_count": lambda: 0 if _asked_by_torch() else 1,
        "current_device": lambda: 0,
        "set_device": nothing(),
        "synchronize": nothing(),
        "empty_cache": nothing(),
        "get_device_name": lambda *_, **__: _PROPERTIES.name,
        "get_device_capability": lambda *_, **__: (8, 0),
        "get_device_properties": properties,
        "is_bf16_supported": lambda *_, **__: True,
        "current_stream": lambda *_, **__: stream,
        "default_stream": lambda *_, **__: stream,
        "stream": lambda given: given or stream,
        "device": lambda *_, **__: contextlib.nullcontext(),
        "device_of": lambda *_, **__: contextlib.nullcontext(),
        "Stream": _Stream,
        "Event": _Event,
    }


def marks() -> dict[str, Any]:
    """Marks of torch.cuda.nvtx for a profiler, which is not there: without CUDA torch's own raise.

    ``nvtx.range`` calls range_push and range_pop, and so needs nothing here.
    """
    # each a function of its own, as above
    return {
        "range_push": lambda *_, **__: 0,  # how deep it is nested
        "range_pop": lambda *_, **__: 0,
        "range_start": lambda *_, **__: 0,  # a handle for range_end
        "range_end": lambda *_, **__: None,
        "mark": lambda *_, **__: None,
    }
