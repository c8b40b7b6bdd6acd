#!/usr/bin/env python3
"""Fixtures for parity_test.cpp: 50 training steps of five models in PyTorch, in f64.

  python3 tests/parity/make_fixtures.py [MODEL…]       # needs numpy and torch 2; writes MODEL.json beside this file

Weights and data come from a counter hash that parity_test.cpp has too, so a fixture holds results only: the loss of
every step, and of each final parameter and running statistic its sum, its sum of squares and its first values. Every
step sees a batch of its own. Images are NHWC arrays; PyTorch gets them as NCHW.
"""
import json
import math
import os
import sys
import zlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

STEPS = 50
FIRST = 2  # values kept of each tensor
HERE = os.path.dirname(os.path.abspath(__file__))


def hashed(seed, n):
    """n words: the finaliser of murmur3 over i * 0x9E3779B9 + seed, modulo 2^32."""
    x = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def uniform(seed, shape, std=1.0):
    """f64 of mean 0 and deviation std: ((hash >> 8) / 2^23 - 1) * (sqrt(3) * std)."""
    u = (hashed(seed, math.prod(shape)) >> np.uint32(8)).astype(np.float64) / 2.0**23 - 1.0
    return (u * (math.sqrt(3.0) * std)).reshape(shape)


def integers(seed, shape, bound):
    return (hashed(seed, math.prod(shape)) % np.uint32(bound)).astype(np.int64).reshape(shape)


def initial(name, shape, std):
    """Biases have deviation 0.01, other vectors are ones, matrices have std or sqrt(2 / fan-in)."""
    bias = "bias" in name
    if len(shape) == 1 and not bias:
        return np.ones(shape)
    return uniform(zlib.crc32(name.encode()), shape, 0.01 if bias else std or math.sqrt(2.0 / math.prod(shape[1:])))


class Block(nn.Module):
    """ResNet's bottleneck: 1x1, 3x3 with the stride, 1x1; a projection where the shapes differ."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.short = None
        if stride != 1 or channels != 4 * width:
            self.short, self.bns = nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.short is None else self.bns(self.short(x))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.blocks = nn.ModuleList([Block(8, 4, 1), Block(16, 4, 1), Block(16, 8, 2), Block(32, 8, 1)])
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.lstm, self.fc = nn.LSTM(16, 24, batch_first=True), nn.Linear(24, 10)

    def forward(self, x):
        return self.fc(self.lstm(self.emb(x))[0][:, -1])


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ln2, self.fc, self.fc2 = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (u.view(b, t, self.heads, -1).transpose(1, 2) for u in self.qkv(self.ln1(x)).split(d, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(a)
        return x + self.fc2(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(96, 32), nn.Embedding(12, 32)
        self.h = nn.ModuleList(Layer(32, 4) for _ in range(2))
        self.lnf = nn.LayerNorm(32)

    def forward(self, x):
        x = self.wte(x) + self.wpe.weight
        for layer in self.h:
            x = layer(x)
        return F.linear(self.lnf(x), self.wte.weight)  # tied head


def mlp():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def keras_cnn():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))


def images(batch, side):
    x = uniform(1, (STEPS, batch, side, side, 3))
    return x.transpose(0, 1, 4, 2, 3), integers(2, (STEPS, batch), 10)


def vectors(batch, size):
    return uniform(1, (STEPS, batch, size)), integers(2, (STEPS, batch), 10)


def sequences(batch, length, words):
    return integers(1, (STEPS, batch, length), words), integers(2, (STEPS, batch), 10)


def texts(batch, length, words):
    x = integers(1, (STEPS, batch, length), words)
    return x, np.roll(x, -1, axis=-1)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-4)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)


# model, data, optimiser, deviation of the matrices (None: by fan-in)
MODELS = {
    "mlp": (mlp, lambda: vectors(16, 784), adam, None),
    "keras_cnn": (keras_cnn, lambda: images(2, 32), adam, None),
    "resnet": (ResNet, lambda: images(4, 32), sgd, None),
    "lstm": (Lstm, lambda: sequences(8, 12, 50), adam, None),
    "gpt": (Gpt, lambda: texts(2, 12, 96), adamw, 0.1),
}


def facts(value):
    flat = value.detach().double().reshape(-1)
    return {"sum": flat.sum().item(), "squares": (flat * flat).sum().item(), "first": flat[:FIRST].tolist()}


def train(name):
    make, data, optimizer, std = MODELS[name]
    net = make().double().train()
    with torch.no_grad():
        for key, p in net.named_parameters():
            p.copy_(torch.from_numpy(initial(key, tuple(p.shape), std)))
    xs, ys = (torch.from_numpy(np.ascontiguousarray(a)) for a in data())
    opt, losses = optimizer(net.parameters()), []
    for x, y in zip(xs, ys):
        opt.zero_grad(set_to_none=True)
        logits = net(x)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    state = dict(net.named_parameters())
    state.update((k, b) for k, b in net.named_buffers() if "running" in k)
    return {"losses": losses, "final": {key: facts(value) for key, value in state.items()}}


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    for name in sys.argv[1:] or MODELS:
        result = train(name)
        final = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in result["final"].items())
        with open(os.path.join(HERE, name + ".json"), "w") as f:  # one tensor a line, for readable differences
            f.write(f'{{"model": "{name}", "torch": "{torch.__version__}",\n"losses": {json.dumps(result["losses"])},\n'
                    f'"final": {{\n{final}}}}}\n')
        print(f"{name}: loss {result['losses'][0]:.6f} to {result['losses'][-1]:.6f}")


if __name__ == "__main__":
    main()
