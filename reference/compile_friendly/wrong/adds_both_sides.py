"""Weighs the two sides of the branch with 0 and 1: 0 times the NaN of 0 / 0 is NaN."""

import math

import torch

EXPECTED_VERDICT = "non_finite"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("clip-zero", "clip-both")

LEARNING_RATE = 0.1


def clipped_step(weight, grad):
    length = grad.norm()
    is_long = (length > 1.0).float()
    grad = is_long * grad / length + (1 - is_long) * grad
    return weight - LEARNING_RATE * grad


def running_mean(x):
    counts = torch.arange(1, x.shape[0] + 1, device=x.device)
    return x.cumsum(dim=0) / counts[:, None]


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
