"""Starts the clock while the GPU still works on the warm-ups."""

import statistics
import time

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None


def benchmark(run, *, num_warmups, num_trials):
    for _ in range(num_warmups):
        run()
    times_ms = []
    for _ in range(num_trials):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times_ms.append(1e3 * (time.perf_counter() - start))
    return times_ms


def summarize(times_ms):
    return statistics.median(times_ms)
