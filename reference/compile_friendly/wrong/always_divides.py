"""Divides by the length without asking whether it is over 1: short gradients grow."""

import math

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("clip-short", "clip-both", "clip-order")

LEARNING_RATE = 0.1


def clipped_step(weight, grad):
    return weight - LEARNING_RATE * grad / (grad.norm() + 1e-12)


def running_mean(x):
    counts = torch.arange(1, x.shape[0] + 1, device=x.device)
    return x.cumsum(dim=0) / counts[:, None]


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
