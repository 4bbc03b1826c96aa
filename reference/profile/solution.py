"""Where the time goes: torch.profiler, and what to read from it.

A benchmark tells how long something takes, a profile tells what takes so long: which operators ran,
how often, and for how long each. PyTorch records them itself:

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        run()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json")      a timeline, for chrome://tracing or ui.perfetto.dev

prof.key_averages() is a list with one row per name. Of a row this problem needs .key, the name;
.count, how often it was called; and its times in microseconds, of all calls together.

An operator such as aten::matmul calls others (aten::mm). A row therefore has two times: a *total*
time with all that the operator called, and a *self* time without. Total times overlap: who adds them
up counts the same microsecond once for every operator around it. Self times add up to the whole.
"""

import torch


def profile(run):
    """How often a function calls each operator, and where its time goes.

    Args:
        run: A function without arguments. Its first call may do more than the later ones: fill a
            table, choose an algorithm, load a kernel. It may use the GPU.

    Returns:
        A dict from the name of each operator that one call of run, after the first, calls, such as
        "aten::mul", to a tuple (calls, cpu_us, gpu_us). The operator with the most cpu_us + gpu_us
        comes first.
        calls: How often it is called, be it by run or by another operator.
        cpu_us: Self time on the CPU in microseconds, all its calls together.
        gpu_us: Likewise of the kernels that it starts on the GPU; 0 if there are none.
        Rows of the profiler whose names do not begin with "aten::" are no operators: ranges that
        somebody named, nodes of autograd, calls of CUDA. They are left out.

    For torch.softmax on the CPU: {"aten::_softmax": (1, 21.4, 0), "aten::softmax": (1, 2.2, 0)}.
    """
    # Warm up first, and outside of the profiler: what it sees, it counts.
    # With a GPU: ProfilerActivity.CUDA records its kernels. It runs behind the CPU, so wait until it
    # has done the first call (torch.cuda.synchronize) before you begin. Without a GPU that fails:
    # torch.cuda.is_initialized() tells whether anything has used one.
    # BEGIN SOLUTION
    run()
    recorded = [torch.profiler.ProfilerActivity.CPU]
    # asked after the first call, because it is run that knows whether there is work for a GPU
    uses_gpu = torch.cuda.is_initialized()
    if uses_gpu:
        recorded.append(torch.profiler.ProfilerActivity.CUDA)
        # or kernels of the first call would still be running when the profiler starts
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=recorded) as prof:
        # when it returns, run has only asked for its kernels. A stopwatch would have to wait for them
        # here (synchronize); torch.profiler, if it records CUDA, does so by itself
        run()
    rows = [row for row in prof.key_averages() if row.key.startswith("aten::")]
    rows.sort(key=lambda row: row.self_cpu_time_total + row.self_device_time_total, reverse=True)
    # without group_by_input_shape there is one row a name, so no name is lost in the dict
    return {
        row.key: (row.count, row.self_cpu_time_total, row.self_device_time_total) for row in rows
    }
    # END SOLUTION
