"""Makes all trials, and returns the time of the last alone."""

import statistics

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None


def benchmark(run, *, num_warmups, num_trials):
    for _ in range(num_warmups):
        run()
    torch.cuda.synchronize()
    for _ in range(num_trials):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
    return [start.elapsed_time(end)]


def summarize(times_ms):
    return statistics.median(times_ms)
