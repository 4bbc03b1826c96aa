"""Three functions that torch.compile takes whole: a branch, a loop over rows, many lengths.

torch.compile has two halves. Dynamo runs your Python once, with stand-ins for the tensors, and
records what happens to them as a graph; a backend then makes fast code of the graph, fusing what it
can. All that Dynamo cannot record costs you something:

- a graph break: Python has to know a *value* (``if t > 0``, ``t.item()``, ``print(t)``). Dynamo ends
  the graph, lets Python go on by itself, and starts another graph behind it. Nothing is fused across
  a break, and on a GPU Python waits there for the GPU to finish.
- unrolling: a Python loop runs while Dynamo records, so 1000 rows are 1000 copies of its body.
- recompilation: a graph is made for the shapes that it saw. When a length changes, Dynamo makes a
  second one, for any length. But where Python used the length as a plain number (range, a key of a
  dict, a list of numbers), the graph holds for this length alone, and each length gets its own.

Each function here is given as it is usually written first, named ``..._plain``: it is right, and
torch.compile makes little of it. Write it anew, so that it returns the same and stays one graph.
To see what Dynamo makes of a function:

    print(torch._dynamo.explain(clipped_step)(weight, grad))    graphs, breaks, and where they are
    TORCH_LOGS=graph_breaks,recompiles python my_script.py      the same, while a script runs
    torch.compile(clipped_step, fullgraph=True)                 an error instead of a break
"""

import math

import torch

LEARNING_RATE = 0.1


def clipped_step_plain(weight, grad):
    """The first function as it is: two graphs with a break between them."""
    length = grad.norm()
    if length.item() > 1.0:
        grad = grad / length
    return weight - LEARNING_RATE * grad


def clipped_step(weight, grad):
    """One step of gradient descent, with the gradient cut to length 1 if it is longer.

    Args:
        weight: Shape (n,), float32.
        grad: Shape (n,), float32, on the device of weight. It may be all zeros.

    Returns:
        What clipped_step_plain returns, from one graph: one for long and for short gradients.
    """
    # Both sides of a branch can be computed, and one of them taken element by element, on the
    # tensor's own device: torch.where. Or find one formula that is right on both sides.
    # What does yours give for a gradient of zeros?
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement clipped_step")


def running_mean_plain(x):
    """The second function as it is: one graph, but three operations in it for every row."""
    total = torch.zeros_like(x[0])
    means = []
    for i in range(x.shape[0]):
        total = total + x[i]
        means.append(total / (i + 1))
    return torch.stack(means)


def running_mean(x):
    """For each row the mean of this row and all rows above it.

    Args:
        x: Shape (n_rows, n_cols), float32, at least one row.

    Returns:
        What running_mean_plain returns, from a graph of as many operations for 1000 rows as for 10.
    """
    # The sums of all rows at once: x.cumsum. And by what must row i be divided?
    # A tensor that you make lies on the CPU unless you say device=x.device.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement running_mean")


_masks = {}


def causal_softmax_plain(scores):
    """The third function as it is: one graph for each length that ever comes."""
    n = scores.shape[0]
    key = n, scores.device
    if key not in _masks:
        allowed = [[j <= i for j in range(n)] for i in range(n)]
        _masks[key] = torch.tensor(allowed, device=scores.device)
    return torch.softmax(scores.masked_fill(~_masks[key], -math.inf), dim=-1)


def causal_softmax(scores):
    """Softmax over each row of attention scores, where row i sees the columns 0 to i alone.

    Args:
        scores: Shape (n, n), float32: queries by keys. No n is the largest.

    Returns:
        What causal_softmax_plain returns, with two graphs for all lengths together: one for the
        length that came first, one for any other. (Length 1 always gets one of its own.)
    """
    # Which function of torch makes the mask from n without a list of numbers?
    # A dict of what was computed before saves nothing here: it is asked for in Python.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement causal_softmax")
