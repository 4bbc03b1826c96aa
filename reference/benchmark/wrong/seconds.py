"""Returns what perf_counter gives: seconds."""

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
    times = []
    for _ in range(num_trials):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


def summarize(times_ms):
    return statistics.median(times_ms)
