"""A Triton driver that only answers which GPU to compile for. Nothing can be loaded or launched."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from grader.compiler.occupancy import LIMITS, MAX_THREADS, REGISTERS_PER_SM, WARP_SIZE


class CompileOnlyDriver:
    """Stands where Triton looks for the GPU's driver.

    Args:
        arch: Compute capability times ten, such as 90.
    """

    def __init__(self, arch: int) -> None:
        self.arch = arch
        self.utils = _Utils(self)

    def get_current_target(self) -> Any:
        """The GPU to compile for, as Triton names it."""
        from triton.backends.compiler import GPUTarget  # noqa: PLC0415  not everywhere installed

        return GPUTarget("cuda", self.arch, WARP_SIZE)

    def get_current_device(self) -> int:
        """Another for every architecture: Triton keeps what it compiled by device."""
        return self.arch

    def set_current_device(self, device: int) -> None:
        """There is only the one."""

    def get_current_stream(self, device: int | None = None) -> int:
        """There is only the default one."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Where a student's file would make tensors while it is imported."""
        return torch.device("cpu")

    def get_device_interface(self) -> NoReturn:
        """Refused."""
        _refuse()

    def get_benchmarker(self) -> Any:
        """Asked for by autotune; never called, as nothing is launched."""
        return _refuse

    def launcher_cls(self, *_: Any) -> NoReturn:
        """Refused."""
        _refuse()


class _Utils:
    def __init__(self, driver: CompileOnlyDriver) -> None:
        self._driver = driver

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """What a file may ask while it is imported, for the target."""
        limits = LIMITS[self._driver.arch]
        return {
            "max_shared_mem": limits.block_shared_bytes,
            "max_num_regs": REGISTERS_PER_SM,
            "multiprocessor_count": 108,  # as torch.cuda answers in the simulator
            "warpSize": WARP_SIZE,
            "maxThreadsPerBlock": MAX_THREADS,
        }

    def load_binary(self, *_: Any) -> NoReturn:
        """Refused."""
        _refuse()


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("there is no GPU here: kernels are only compiled")
