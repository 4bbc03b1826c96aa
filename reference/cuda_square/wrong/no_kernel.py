"""Mistake: PyTorch does the work, no kernel is written."""

import torch

EXPECTED_VERDICT = "foreign_kernel"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None


def cuda_square(x: torch.Tensor) -> torch.Tensor:
    return x * x
