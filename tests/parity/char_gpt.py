#!/usr/bin/env python3
"""The validation loss of a small character GPT in PyTorch, for tests/examples/char_gpt_slow_test.cpp.

  python3 tests/parity/char_gpt.py tinyshakespeare.txt      # needs numpy and torch 2; writes char_gpt.json beside this file

The same run as examples/char_gpt.cpp: windows one after the other, the last tenth for validation, batches in the order
of data::permutation(windows, seed), AdamW with its defaults, f32. Initial weights are from the counter hash of
make_fixtures.py, matrices with deviation 0.02. Parameters have the names of models::Gpt2.
"""
import json
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from make_fixtures import HERE, Layer, initial

SETTING = {"layers": 4, "width": 128, "heads": 4, "length": 64, "batch": 16, "steps": 900, "lr": 1e-3, "seed": 1}
WORD = (1 << 64) - 1


class CharGpt(nn.Module):
    def __init__(self, vocabulary, layers, width, heads, length):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.lnf = nn.LayerNorm(width)

    def forward(self, x):
        x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for layer in self.h:
            x = layer(x)
        return F.linear(self.lnf(x), self.wte.weight)  # tied head


def splitmix64(state):
    """The next state and its word."""
    state = (state + 0x9E3779B97F4A7C15) & WORD
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return state, z ^ (z >> 31)


def permutation(count, seed, epoch):
    """data::permutation, as its comment says."""
    order = list(range(count))
    state = (splitmix64(seed)[1] + epoch) & WORD
    for i in range(count - 1, 0, -1):
        state, word = splitmix64(state)
        j = (word * (i + 1)) >> 64
        order[i], order[j] = order[j], order[i]
    return order


def loss_of(net, x, y):
    logits = net(x)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


def main():
    s = SETTING
    text = open(sys.argv[1], encoding="utf-8", newline="").read()
    vocabulary = sorted(set(text))
    symbols = torch.tensor([vocabulary.index(c) for c in text])
    count, length = (len(text) - 1 - s["length"]) // s["length"] + 1, s["length"]
    x = symbols[: count * length].view(count, length)
    y = symbols[1 : count * length + 1].view(count, length)
    train = round(0.9 * count)

    net = CharGpt(len(vocabulary), s["layers"], s["width"], s["heads"], length)
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.from_numpy(initial(name, tuple(p.shape), 0.02)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=s["lr"])
    order = torch.tensor(permutation(train, s["seed"], 0))[: s["steps"] * s["batch"]].view(s["steps"], s["batch"])
    losses, start = [], time.time()
    for rows in order:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net, x[rows], y[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():  # every window counts alike
        parts = [(len(a), loss_of(net, a, b).item()) for a, b in zip(x[train:].split(128), y[train:].split(128))]
    validation = sum(n * v for n, v in parts) / sum(n for n, _ in parts)
    print(f"{s['steps']} steps in {time.time() - start:.0f} s, first loss {losses[0]:.4f}, "
          f"last ones {np.mean(losses[-20:]):.4f}, validation loss {validation:.4f}")
    with open(os.path.join(HERE, "char_gpt.json"), "w") as f:
        facts = {"torch": torch.__version__, "setting": s, "vocabulary": len(vocabulary), "windows": count,
                 "trained_on": train, "first_rows": order[0].tolist(), "first_loss": losses[0],
                 "validation_loss": validation}
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in facts.items()) + "\n}\n")


if __name__ == "__main__":
    main()
