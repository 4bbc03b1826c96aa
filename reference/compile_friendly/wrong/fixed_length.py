"""Tells Dynamo that the length will not change, which makes one graph for each that comes."""

import math

import torch
from torch._dynamo import mark_static

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
    mark_static(scores)
    n = scores.shape[0]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
