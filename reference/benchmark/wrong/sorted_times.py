"""Returns the times from the shortest to the longest, not in the order of the trials."""

import statistics
import time

import torch

EXPECTED_VERDICT = "wrong_value"
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
    return sorted(times_ms)


def summarize(times_ms):
    return statistics.median(times_ms)
