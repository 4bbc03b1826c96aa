"""Which tensors live on the (pretended) GPU: a mark on the storage, as a kernel launch checks it."""

from __future__ import annotations

import torch

_DEVICE = "_kernelgrade_on_cpu"


class _Pretending:
    depth = 0


def start_pretending() -> None:
    """From here on tensors count as on the GPU, unless marked."""
    _Pretending.depth += 1


def stop_pretending() -> None:
    """Undo start_pretending."""
    _Pretending.depth -= 1


def is_pretending() -> bool:
    """Whether host code believes that there is a GPU."""
    return _Pretending.depth > 0


def mark_cpu(tensor: torch.Tensor) -> None:
    """This tensor's storage is in the host's memory."""
    setattr(tensor.untyped_storage(), _DEVICE, True)


def is_cpu(tensor: torch.Tensor) -> bool:
    """Whether a real run would have this tensor in the host's memory."""
    try:
        return getattr(tensor.untyped_storage(), _DEVICE, False)
    except RuntimeError:
        # it has no memory of its own: sparse, or under vmap
        return False


def check_device(name: str, tensor: torch.Tensor) -> None:
    """Refuse what a GPU kernel cannot reach.

    Raises:
        ValueError: If the tensor is not on the simulated (or pretended) GPU.
    """
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise ValueError(
            f"argument {name} is a {tensor.layout} tensor on {tensor.device}: the simulator takes "
            "strided tensors in CPU memory"
        )
    if is_pretending() and is_cpu(tensor):
        raise ValueError(
            f"Pointer argument {name} cannot be accessed from Triton (cpu tensor?): it is in the host's "
            'memory, made without a device or moved there. Write device="cuda" where it is created, or '
            "device=x.device, where x is a tensor on the GPU; of one that is there already, x.cuda()"
        )
