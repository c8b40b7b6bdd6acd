"""Prints the numbers in bench_results_test.cpp: the mean magnitude and the mean square of what the workloads I1 to I3
and K1 to K5 compute first, by formulas in numpy (JAX for convolutions) in f64. Run by hand: python bench_results_test.py"""

import math
import zlib

import jax
import ml_dtypes
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)


def hashed(seed, n):
    x = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def uniform(seed, *shape, std=1.0):
    u = (hashed(seed, math.prod(shape)) >> np.uint32(8)).astype(np.float32) / np.float32(2**23) - np.float32(1)
    return (u * np.float32(math.sqrt(3.0) * std)).reshape(shape).astype(np.float64)


def weight(name, *shape):
    bias = name.endswith("bias") or "bias_" in name
    if len(shape) == 1 and not bias:
        return np.ones(shape)
    return uniform(zlib.crc32(name.encode()), *shape, std=0.01 if bias else math.sqrt(2 / math.prod(shape[1:])))


def dense(name, x, out, keep=lambda v: v):
    w, b = keep(weight(name + ".weight", out, x.shape[-1])), keep(weight(name + ".bias", out))
    return keep(keep(x @ w.T) + b)


def relu(x):
    return np.maximum(x, 0)


def mlp(batch, keep=lambda v: v):
    return dense("2", relu(dense("0", keep(uniform(1, batch, 784)), 128, keep)), 10, keep)


def lstm(batch, vocabulary=10000, embedding=64, hidden=128, length=64):
    words = (hashed(1, batch * length) % np.uint32(vocabulary)).reshape(batch, length)
    x = weight("emb.weight", vocabulary, embedding)[words]
    w, r = (weight(f"lstm.weight_{k}_l0", 4 * hidden, n) for k, n in (("ih", embedding), ("hh", hidden)))
    bias = weight("lstm.bias_ih_l0", 4 * hidden) + weight("lstm.bias_hh_l0", 4 * hidden)
    h = c = np.zeros((batch, hidden))
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    for t in range(length):
        i, f, g, o = np.split(x[:, t] @ w.T + h @ r.T + bias, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return dense("fc", h, 10)


def resnet50(batch):
    def conv_norm(conv, norm, x, out, size=1, stride=1):
        w = weight(conv + ".weight", out, x.shape[-1], size, size).transpose(2, 3, 1, 0)
        pad = [(size // 2, size // 2)] * 2
        y = lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return np.asarray(y) / math.sqrt(1 + 1e-5) * weight(norm + ".weight", out) + weight(norm + ".bias", out)

    x = relu(conv_norm("conv1", "bn1", uniform(1, batch, 224, 224, 3), 64, 7, 2))
    around = [(0, 0), (1, 1), (1, 1), (0, 0)]
    x = np.asarray(lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around))
    block = 0
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(blocks):
            n, stride = f"blocks.{block}", first_stride if k == 0 else 1
            y = relu(conv_norm(n + ".conv1", n + ".bn1", x, width))
            y = relu(conv_norm(n + ".conv2", n + ".bn2", y, width, 3, stride))
            y = conv_norm(n + ".conv3", n + ".bn3", y, 4 * width)
            x = relu(y + (conv_norm(n + ".short", n + ".bns", x, 4 * width, 1, stride) if k == 0 else x))
            block += 1
    return dense("fc", x.mean((1, 2)), 1000)


def kernels(n, side, keep=lambda v: v):
    a, b = keep(uniform(1, n)), keep(uniform(2, n))
    z = a * 1.1 + 0.1
    yield f"K1@{n}", keep(a + b)
    yield f"K3@{n}", z * (1 + np.vectorize(math.erf)(z / math.sqrt(2))) / 2 * 0.9
    a, b = keep(uniform(1, side, side)), keep(uniform(2, side, side))
    yield f"K2@{side}", keep(a @ b)
    e = np.exp(a - a.max(-1, keepdims=True))
    yield f"K4@{side}", e / e.sum(-1, keepdims=True)
    c = a - a.mean(-1, keepdims=True)
    yield f"K5@{side}", c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)


def show(name, x):
    print(f"{name}: {{{float(np.abs(x).mean())!r}, {float((x * x).mean())!r}}}")


if __name__ == "__main__":
    half = lambda v: v.astype(ml_dtypes.bfloat16).astype(np.float64)
    show("I1@1", mlp(1))
    show("I1@64", mlp(64))
    show("I1@64 bf16", mlp(64, half))
    show("I3@1", lstm(1))
    show("I2@1", resnet50(1))
    for name, result in kernels(1000, 100):
        show(name, result)
    for name, result in kernels(1000, 100, half):
        if name[:2] in ("K1", "K2"):
            show(name + " bf16", result)
