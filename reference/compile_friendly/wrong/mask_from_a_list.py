"""Makes the mask from a list of lists: the length is a plain number, and each one compiles anew."""

import math

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = (
    "lengths-five",
    "lengths-return",
    "lengths-one",
    "lengths-falling",
    "lengths-device",
)

LEARNING_RATE = 0.1


def clipped_step(weight, grad):
    length = grad.norm()
    return weight - LEARNING_RATE * grad / length.clamp(min=1.0)


def running_mean(x):
    counts = torch.arange(1, x.shape[0] + 1, device=x.device)
    return x.cumsum(dim=0) / counts[:, None]


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = torch.tensor([[j <= i for j in range(n)] for i in range(n)], device=scores.device)
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
