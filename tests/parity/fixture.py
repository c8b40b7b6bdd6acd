"""What make_layers.py and make_losses.py share; tests/parity_digest.h is the same in C++.

Data is by formula (wave), so that a fixture holds results only: of every tensor its shape and three numbers that
depend on each element and its place.
"""
import json
import math
import os

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def wave(shape, phase, scale=1.0):
    i = np.arange(math.prod(shape), dtype=np.float64)
    return (scale * (np.sin(0.7 * i + phase) + 0.3 * np.cos(2.3 * i + phase))).reshape(shape)


def leaf(array):
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def digest(x):
    v = x.detach().numpy().astype(np.float64).reshape(-1)
    i = np.arange(v.size)
    sums = [np.sum(v * np.cos(0.3 * i)), np.sum(v * np.sin(1.1 * i + 0.4)), np.sum(v * v)]
    return {"shape": list(x.shape), "sums": [float(s) for s in sums]}


def gradients(outputs, leaves):
    """Of the sum of all outputs, each weighted by a wave."""
    total = sum((y * torch.tensor(wave(y.shape, 0.9 + k))).sum() for k, y in enumerate(outputs))
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    return [digest(torch.zeros_like(x) if g is None else g) for x, g in zip(leaves, grads)]


def write(name, cases):
    with open(os.path.join(HERE, name), "w") as out:
        out.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in cases.items()) + "\n}\n")
