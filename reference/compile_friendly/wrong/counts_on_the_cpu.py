"""Makes the counts on the CPU, wherever the rows are: on a GPU the division fails."""

import math

import torch

EXPECTED_VERDICT = "crashed"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("rows-device",)

LEARNING_RATE = 0.1


def clipped_step(weight, grad):
    length = grad.norm()
    return weight - LEARNING_RATE * grad / length.clamp(min=1.0)


def running_mean(x):
    counts = torch.arange(1, x.shape[0] + 1)
    return x.cumsum(dim=0) / counts[:, None]


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
