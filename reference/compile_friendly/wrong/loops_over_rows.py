"""Uses the sums of all rows at once, but divides row by row."""

import math

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("rows-size", "rows-five", "rows-one", "rows-large", "rows-device")

LEARNING_RATE = 0.1


def clipped_step(weight, grad):
    length = grad.norm()
    return weight - LEARNING_RATE * grad / length.clamp(min=1.0)


def running_mean(x):
    sums = x.cumsum(dim=0)
    return torch.stack([sums[i] / (i + 1) for i in range(x.shape[0])])


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
