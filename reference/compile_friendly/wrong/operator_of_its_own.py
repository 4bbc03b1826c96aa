"""Registers the branch as an operator: one graph, of a single node that no compiler can look into."""

import math

import torch

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = ("clip-long", "clip-short", "clip-zero", "clip-both", "clip-order")

LEARNING_RATE = 0.1


@torch.library.custom_op("mine::step", mutates_args=())
def step(weight: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return clipped_step_plain(weight, grad)


@step.register_fake
def step_shape(weight, grad):
    return torch.empty_like(weight)


def clipped_step_plain(weight, grad):
    length = grad.norm()
    if length.item() > 1.0:
        grad = grad / length
    return weight - LEARNING_RATE * grad


def clipped_step(weight, grad):
    return step(weight, grad)


def running_mean(x):
    counts = torch.arange(1, x.shape[0] + 1, device=x.device)
    return x.cumsum(dim=0) / counts[:, None]


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
