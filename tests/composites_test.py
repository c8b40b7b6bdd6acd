"""Prints the numbers in composites_test.cpp and ops_test.cpp: JAX's functions where it has them, formulas in numpy
elsewhere, all in f64. Run by hand: python composites_test.py"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)


def pattern(shape, seed):
    """Multiples of 1/8 in [-1, 1]: exact in every float dtype."""
    i = np.arange(int(np.prod(shape)))
    return jnp.array(((i * i + i * 7 + seed * 5) % 17 - 8) / 8.0).reshape(shape)


def digest(x):
    return float(jnp.sum(x * pattern(x.shape, 6)))


def show(name, *results):
    print(name)
    for r in results:
        r = np.asarray(r, np.float64)
        print("   ", r.shape, "{" + ", ".join(repr(float(v)) for v in r.ravel()) + "}")


p = pattern


def norms():
    def layer_norm(x, scale, bias, axes, eps=1e-5):
        over = tuple(range(x.ndim - axes, x.ndim))
        mean, variance = x.mean(over, keepdims=True), x.var(over, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + eps) * scale + bias

    def batch_norm(x, scale, bias, axis, eps=1e-5):
        over = tuple(i for i in range(x.ndim) if i != axis)
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        mean, variance = x.mean(over), x.var(over)
        normal = (x - mean.reshape(shape)) / jnp.sqrt(variance.reshape(shape) + eps)
        return normal * scale.reshape(shape) + bias.reshape(shape), mean, variance

    x, scale, bias, grad = p((2, 3), 1), p((3,), 2), p((3,), 3), p((2, 3), 4)
    show("layer_norm", layer_norm(x, scale, bias, 1))
    show("layer_norm, two axes", layer_norm(p((2, 2, 2), 1), p((2, 2), 2), p((2, 2), 3), 2, 1e-3))
    show("layer_norm_grad", *jax.vjp(lambda *a: layer_norm(*a, 1), x, scale, bias)[1](grad))
    x, scale, bias, grad = p((3, 2, 2), 1), p((2,), 2), p((2,), 3), p((3, 2, 2), 8)
    show("batch_norm_train", *batch_norm(x, scale, bias, 2))
    show("batch_norm_train, axis 1", *batch_norm(x, scale, bias, 1))
    show("batch_norm_grad", *jax.vjp(lambda *a: batch_norm(*a, 2)[0], x, scale, bias)[1](grad))
    mean, variance = p((2,), 4), jnp.abs(p((2,), 5)) + 0.5
    show("batch_norm_inference", (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias)


def attentions():
    def attention(q, k, v, causal, scale):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * scale
        if causal:
            queries, keys = scores.shape[2:]
            seen = jnp.arange(keys) <= jnp.arange(queries)[:, None] + keys - queries
            scores = jnp.where(seen, scores, -jnp.inf)
        return jnp.einsum("bhqk,bhke->bhqe", jax.nn.softmax(scores, -1), v)

    q, k, v = p((1, 2, 2, 3), 1), p((1, 2, 3, 3), 2), p((1, 2, 3, 2), 3)
    show("attention", attention(q, k, v, False, 3**-0.5))
    show("attention, causal", attention(q, k, v, True, 3**-0.5))
    show("attention, causal, scale 1/4", attention(q, k, v, True, 0.25))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.25
    show("log-sum-exp, scale 1/4", jax.nn.logsumexp(scores, -1))
    grad = p((1, 2, 2, 2), 4)
    show("attention_grad, causal", *jax.vjp(lambda *a: attention(*a, True, 3**-0.5), q, k, v)[1](grad))


def losses():
    def cross_entropy(logits, labels):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[..., None], -1)[..., 0]

    show("cross_entropy", cross_entropy(p((2, 3), 1), jnp.array([2, 0])))
    show("cross_entropy, rows of rank 2", cross_entropy(p((2, 2, 3), 1), jnp.array([[0, 1], [2, 1]])))


def recurrent():
    sigmoid = jax.nn.sigmoid

    def lstm(x, h, c, w, r, w_bias, r_bias):
        ys = []
        for step in x:
            i, f, g, o = jnp.split(step @ w.T + w_bias + h @ r.T + r_bias, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
            h = sigmoid(o) * jnp.tanh(c)
            ys.append(h)
        return jnp.stack(ys), h, c

    def gru(x, h, w, r, w_bias, r_bias):
        ys = []
        for step in x:
            a, b = jnp.split(step @ w.T + w_bias, 3, -1), jnp.split(h @ r.T + r_bias, 3, -1)
            reset, update = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
            h = (1 - update) * jnp.tanh(a[2] + reset * b[2]) + update * h
            ys.append(h)
        return jnp.stack(ys), h

    x, h, c = p((2, 1, 3), 1), p((1, 2), 2), p((1, 2), 3)
    show("lstm", *lstm(x, h, c, p((8, 3), 4), p((8, 2), 5), p((8,), 6), p((8,), 7)))
    show("gru", *gru(x, h, p((6, 3), 4), p((6, 2), 5), p((6,), 6), p((6,), 7)))


def pools():
    def pool(x, initial, combine):
        return lax.reduce_window(x, initial, combine, (1, 2, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 0), (0, 1), (0, 0)))

    x = p((1, 4, 3, 1), 1)
    show("max_pool", pool(x, -jnp.inf, lax.max))
    show("avg_pool", pool(x, 0.0, lax.add) / 4)
    show("avg_pool, elements only", pool(x, 0.0, lax.add) / pool(jnp.ones_like(x), 0.0, lax.add))


def optimizers():
    w, g, m, v, lr = p((3,), 1), p((3,), 2), p((3,), 3), jnp.abs(p((3,), 4)), 0.125

    def adam(w, g, m, v, step, beta1=0.9, beta2=0.999, eps=1e-8):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        return w - lr / (1 - beta1**step) * m / (jnp.sqrt(v) / np.sqrt(1 - beta2**step) + eps), m, v

    decayed = g + 0.1 * w
    velocity = 0.9 * m + decayed
    show("sgd_update", w - lr * decayed)
    show("momentum_update", w - lr * velocity, velocity)
    show("momentum_update, nesterov", w - lr * (decayed + 0.9 * velocity), velocity)
    show("adam_update", *adam(w, decayed, m, v, 3))
    show("adamw_update", *adam(w * (1 - lr * 0.01), g, m, v, 3))
    show("adam_update, first step", *adam(w, g, 0 * m, 0 * v, 1))


def convolution(layout, x, w, strides, low, high, x_dilation, w_dilation, groups, flip=()):
    operand, rest = layout.split("_")
    kernel, result = rest.split("->")
    names = [a.upper().replace("B", "N").replace("F", "C") for a in (operand, result)]
    numbers = lax.conv_dimension_numbers(x, w, (names[0], kernel.upper(), names[1]))

    def forward(x, w):
        w = jnp.flip(w, [kernel.index(str(i)) for i in flip])
        pads = list(zip(low, high))
        return lax.conv_general_dilated(x, w, strides, pads, x_dilation, w_dilation, numbers, groups)

    y, pull = jax.vjp(forward, p(x, 1), p(w, 2))
    by_x, by_w = pull(p(y.shape, 3))
    print(layout, y.shape, "digests of y, x's and w's gradient", digest(y), digest(by_x), digest(by_w))


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c


def random():
    # Random123's own known answer.
    assert philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    key = (0xDEADBEEF, 42)
    print("split_key", [[hex(v) for v in philox((i, 0, 0, 1), key)[:2]] for i in range(5)])
    words = [word for block in range(3) for word in philox((block, 0, 0, 0), key)]
    print("f64", [((words[2 * i] | words[2 * i + 1] << 32) >> 11) * 2.0**-53 for i in range(3)])
    for name, width, kept in [("f32", 32, 24), ("f16", 16, 11), ("bf16", 16, 8), ("f8e4m3fn", 8, 4), ("f8e5m2", 8, 3)]:
        print(name, [(w & (1 << width) - 1) >> (width - kept) for w in words[:5]], f"/ 2^{kept}")


show("softmax", jax.nn.softmax(p((2, 3), 1), -1))
show("softmax, axis 0", jax.nn.softmax(p((2, 3), 1), 0))
show("log_softmax", jax.nn.log_softmax(p((2, 3), 1), -1))
show("gelu", jax.nn.gelu(p((5,), 2), approximate=False))
show("gelu, tanh form", jax.nn.gelu(p((5,), 2), approximate=True))
norms()
attentions()
losses()
show("embedding", p((3, 2), 1)[jnp.array([2, 0, 2])])
recurrent()
pools()
optimizers()
one = (1, 1)
convolution("b01f_01io->b01f", (2, 5, 4, 3), (3, 2, 3, 2), one, (0, 0), (0, 0), one, one, 1)
convolution("b01f_01io->b01f", (2, 5, 7, 3), (3, 2, 3, 2), (2, 3), (1, 0), (2, 1), one, one, 1)
convolution("bf01_oi01->bf01", (2, 4, 6, 5), (6, 2, 3, 3), (2, 2), (1, 1), (1, 0), one, one, 2)
convolution("b01f_01io->b01f", (1, 5, 5, 4), (2, 3, 1, 8), (1, 3), (2, -1), (-1, 3), (1, 2), (2, 1), 4)
convolution("f01b_o0i1->01bf", (3, 6, 5, 2), (2, 3, 3, 2), (3, 2), (4, 0), (0, 3), one, (1, 3), 1, (0,))
convolution("bf0_oi0->bf0", (2, 4, 9), (4, 2, 4), (4,), (2,), (0,), (2,), (2,), 2, (0,))
random()
