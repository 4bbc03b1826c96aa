"""How long does a kernel take? Measuring it right is half of making it fast.

The GPU works on its own: a launch only puts work into a queue, and Python goes on at once. So a
clock that Python reads tells how long it took to ask, unless Python waits until the GPU has done it:

    host   [ask][read the clock]
    GPU         [.......... work ..........]

And the first calls are unlike the rest: they compile, allocate, and choose an algorithm.
"""

from collections.abc import Callable

import torch


def benchmark(run: Callable[[], torch.Tensor], *, num_warmups: int, num_trials: int) -> list[float]:
    """Time a function that puts work on the GPU.

    Args:
        run: Called without arguments. It launches work on the current stream and returns at once,
            with a result on the GPU that you do not need.
        num_warmups: How many calls come first that are not timed; may be 0.
        num_trials: How many calls are then timed, each on its own; at least 1.

    Returns:
        The time of each trial in milliseconds, in their order.

    The GPU may be busy with other work when this is called: no trial may contain it.
    """
    # Use torch.cuda.Event(enable_timing=True): record() puts a mark into the queue, and
    # start.elapsed_time(end) is the time between two marks in ms, once the GPU has passed both.
    # Or use time.perf_counter(), in seconds, while the GPU has nothing left to do.
    # The function synchronize of torch.cuda waits for that. What else waits (result.cpu(),
    # result.item(), print(result)) also moves data, and that time is not the kernel's.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement benchmark")


def summarize(times_ms: list[float]) -> float:
    """One number for many trials, which a single slow trial does not move.

    Args:
        times_ms: At least one time in milliseconds, in any order.

    Returns:
        Their median: of an odd number the one in the middle, of an even number the mean of the two
        in the middle.
    """
    # One trial that the operating system interrupts may take ten times as long.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement summarize")
