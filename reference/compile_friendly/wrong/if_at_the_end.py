"""Computes both sides and picks one with an if in the last line: one graph, and a break behind it."""

import math

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("clip-long", "clip-short", "clip-zero", "clip-both", "clip-order")

LEARNING_RATE = 0.1


def clipped_step(weight, grad):
    length = grad.norm()
    clipped = weight - LEARNING_RATE * grad / length
    plain = weight - LEARNING_RATE * grad
    return clipped if length > 1.0 else plain


def running_mean(x):
    counts = torch.arange(1, x.shape[0] + 1, device=x.device)
    return x.cumsum(dim=0) / counts[:, None]


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
