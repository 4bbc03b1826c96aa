"""Returns the median, where a list of all times is asked for."""

import statistics
import time

import torch

EXPECTED_VERDICT = "wrong_type"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None


def benchmark(run, *, num_warmups, num_trials):
    for _ in range(num_warmups):
        run()
    torch.cuda.synchronize()
    times_ms = []
    for _ in range(num_trials):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times_ms.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times_ms)


def summarize(times_ms):
    return statistics.median(times_ms)
