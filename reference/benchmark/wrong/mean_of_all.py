"""Times all trials at once and divides: no trial can be told from the others."""

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
    start = time.perf_counter()
    for _ in range(num_trials):
        run()
    torch.cuda.synchronize()
    return [1e3 * (time.perf_counter() - start) / num_trials] * num_trials


def summarize(times_ms):
    return statistics.median(times_ms)
