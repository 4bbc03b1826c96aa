"""Hands in the three functions as they were given: right values, and little of them compiled."""

import math

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None

LEARNING_RATE = 0.1


def clipped_step_plain(weight, grad):
    length = grad.norm()
    if length.item() > 1.0:
        grad = grad / length
    return weight - LEARNING_RATE * grad


def clipped_step(weight, grad):
    return clipped_step_plain(weight, grad)


def running_mean_plain(x):
    total = torch.zeros_like(x[0])
    means = []
    for i in range(x.shape[0]):
        total = total + x[i]
        means.append(total / (i + 1))
    return torch.stack(means)


def running_mean(x):
    return running_mean_plain(x)


_masks = {}


def causal_softmax_plain(scores):
    n = scores.shape[0]
    key = n, scores.device
    if key not in _masks:
        allowed = [[j <= i for j in range(n)] for i in range(n)]
        _masks[key] = torch.tensor(allowed, device=scores.device)
    return torch.softmax(scores.masked_fill(~_masks[key], -math.inf), dim=-1)


def causal_softmax(scores):
    return causal_softmax_plain(scores)
