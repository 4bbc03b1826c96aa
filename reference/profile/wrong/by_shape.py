"""Asks for one row per name and shapes; in the dict the last of a name covers the others."""

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
    with torch.profiler.profile(activities=recorded, record_shapes=True) as prof:
        run()
    rows = [
        row for row in prof.key_averages(group_by_input_shape=True) if row.key.startswith("aten::")
    ]
    rows.sort(key=lambda row: row.self_cpu_time_total + row.self_device_time_total, reverse=True)
    return {
        row.key: (row.count, row.self_cpu_time_total, row.self_device_time_total) for row in rows
    }
