"""Prints first losses of T2 and T3 as tensor cores in tf32 give them: f32 arithmetic in JAX on the CPU, the factors of
chosen products rounded to ten bits as the hardware rounds them. What is rounded is what matters. The peers' convolution
of three channels stays in f32, and so does ours; with every other product rounded, their losses come out.
Run by hand: python bench_losses.py"""

import jax
import jax.numpy as jnp
import numpy as np
from bench_results_test import hashed, uniform, weight
from jax import lax

jax.config.update("jax_enable_x64", False)


def rounded(x):
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    return lax.bitcast_convert_type((bits + jnp.uint32(0x1000)) & jnp.uint32(0xFFFFE000), jnp.float32)


def rounding(product):
    """The product whose own factors and whose gradients' are rounded."""
    op = jax.custom_vjp(lambda x, w: product(rounded(x), rounded(w)))

    def gradients(factors, g):
        x, w = map(rounded, factors)
        return jax.vjp(product, x, w)[1](rounded(g))

    op.defvjp(lambda x, w: (op(x, w), (x, w)), gradients)
    return op


# Batch, padding, channels of the convolutions, those with a maximum of 2x2 behind them, side at the end, dense layers.
MODELS = {
    "T2": (64, "VALID", {"0": 32, "3": 64, "6": 64}, "03", 4, {"9": 64, "11": 10}),
    "T3": (128, "SAME", {"0": 32, "3": 64, "6": 128}, "036", 4, {"10": 128, "12": 10}),
}


def losses(name, exact, many):
    """Of three steps of Adam; `exact` are the layers that are not rounded, `many` takes a new batch every step."""
    batch, padding, convolutions, pooled, side, dense = MODELS[name]
    convolve = lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest")
    multiply = lambda x, w: jnp.matmul(x, w, precision="highest")
    p, channels = {}, 3
    for n, out in convolutions.items():
        p[n] = weight(n + ".weight", out, channels, 3, 3).transpose(2, 3, 1, 0), weight(n + ".bias", out)
        channels = out
    width = channels * side * side
    for n, out in dense.items():
        w = weight(n + ".weight", out, width)
        if n == next(iter(dense)):  # flattened from channels first, here channels last
            w = w.reshape(out, channels, side, side).transpose(0, 2, 3, 1).reshape(out, width)
        p[n] = w.T, weight(n + ".bias", out)
        width = out
    p = jax.tree_util.tree_map(lambda v: jnp.asarray(v, jnp.float32), p)

    def layer(p, n, x):
        product = convolve if n in convolutions else multiply
        return (product if n in exact else rounding(product))(x, p[n][0]) + p[n][1]

    def loss(p, x, y):
        for n in convolutions:
            x = jax.nn.relu(layer(p, n, x))
            if n in pooled:
                x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        first, last = dense
        x = layer(p, last, jax.nn.relu(layer(p, first, x.reshape(batch, -1))))
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    @jax.jit
    def step(p, m, v, t, x, y):
        each = jax.tree_util.tree_map
        value, g = jax.value_and_grad(loss)(p, x, y)
        m, v = each(lambda m, g: 0.9 * m + 0.1 * g, m, g), each(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        change = lambda p, m, v: p - 1e-3 * m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return each(change, p, m, v), m, v, value

    batches = 3 if many else 1
    x = uniform(1, batches, batch, 32, 32, 3).astype(np.float32)
    y = (hashed(2, batches * batch) % np.uint32(10)).astype(np.int32).reshape(batches, batch)
    m = v = jax.tree_util.tree_map(jnp.zeros_like, p)
    for t in range(3):
        p, m, v, value = step(p, m, v, t + 1.0, x[t % batches], y[t % batches])
        yield float(value)


for name, (_, _, convolutions, _, _, dense) in MODELS.items():
    for many in (False, True):
        for words, exact in (("none", [*convolutions, *dense]), ("all but the first", ["0"]), ("all", [])):
            values = " ".join(f"{value:.4f}" for value in losses(name, exact, many))
            print(f"{name}, {'many steps' if many else 'one step'} a launch, rounded {words}: {values}")
