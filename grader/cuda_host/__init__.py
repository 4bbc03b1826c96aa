"""CUDA C++ of a submission without a GPU: compiled for the host, every access to memory checked.

What `torch.utils.cpp_extension.load_inline` is given is compiled by the host's own compiler against a
small header (torch.h, device.h), and its kernels run thread after thread in a process of their own.
Where there is a GPU the real ``load_inline`` does the work, and is only watched.

In the student's process: ``inline``, ``trial``. In the verifier: ``judging``. Not covered: shared
memory, __syncthreads, warp functions, atomics, half precision; a .cu that uses them cannot be checked here.
"""
