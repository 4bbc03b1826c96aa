"""Counts what run calls itself, and not what those operators call."""

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None


def profile(run):
    run()
    recorded = [torch.profiler.ProfilerActivity.CPU]
    uses_gpu = torch.cuda.is_initialized()
    if uses_gpu:
        recorded.append(torch.profiler.ProfilerActivity.CUDA)
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=recorded) as prof:
        run()
    rows = {}
    for event in prof.events():
        if event.cpu_parent is None and event.name.startswith("aten::"):
            calls, cpu_us, gpu_us = rows.get(event.name, (0, 0.0, 0.0))
            rows[event.name] = (
                calls + 1,
                cpu_us + event.self_cpu_time_total,
                gpu_us + event.self_device_time_total,
            )
    return dict(sorted(rows.items(), key=lambda item: item[1][1] + item[1][2], reverse=True))
