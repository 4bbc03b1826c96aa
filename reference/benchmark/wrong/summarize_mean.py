"""Summarises by the mean, which a single slow trial moves."""

import statistics

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("summarize-odd", "summarize-even", "summarize-outlier", "summarize-hidden")


def benchmark(run, *, num_warmups, num_trials):
    for _ in range(num_warmups):
        run()
    torch.cuda.synchronize()
    times_ms = []
    for _ in range(num_trials):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times_ms.append(start.elapsed_time(end))
    return times_ms


def summarize(times_ms):
    return statistics.fmean(times_ms)
