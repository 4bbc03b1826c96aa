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
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement profile")
