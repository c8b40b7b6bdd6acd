"""Composites of layers: gelu, attention, embedding, lstm, gru, pooling and the gradients of convolution."""

import jax
import numpy as np
import scipy.special

from . import dtypes as dt
from .contractions import CONVOLUTIONS, SPATIAL_DEFAULTS, convolved, traced_convolution
from .normalization import WIDE
from .reductions import windowed
from .row import Close, Exact, Row


def gelu(op):
    row = Row(op)
    shapes = [(3, 5), (0, 3), (), (67,), (1,), (2, 3, 11)]
    for i, name in enumerate(dt.FLOATS):
        special = dt.round_to([0.0, -0.0, 1, -1, 5, -5, 10, -10, 1e-3, np.inf, np.nan], name)
        for tanh_form in [False, True]:
            for x in [special, dt.sample(row.rng, name, shapes[(2 * i + tanh_form) % len(shapes)])]:
                wide = dt.to_f64(x)
                inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
                y = 0.5 * wide * (1 + (np.tanh(inner) if tanh_form else scipy.special.erf(wide / np.sqrt(2))))
                # 1 + erf and 1 + tanh cancel for negative x; what is left is known to a rounding of 1.
                row.check(f"composite {op}", {"tanh_form": tanh_form}, [x], Close(y, name, np.abs(wide)))
    return row


ATTENTIONS = [
    # q, keys, depth of v, causal, scale
    ((1, 1, 3, 5), 7, 3, False, 0.0),
    ((2, 3, 5, 4), 5, 4, True, 0.0),
    ((1, 2, 3, 7), 11, 5, True, 0.5),
    ((0, 2, 3, 4), 5, 3, False, 0.0),
    ((1, 1, 1, 1), 1, 1, False, 1.0),
    # The first queries see nothing.
    ((1, 1, 5, 3), 3, 3, True, 0.0),
    ((1, 3, 0, 3), 5, 3, False, 0.0),
    ((1, 1, 3, 3), 0, 5, False, 0.0),
    ((1, 1, 3, 19), 17, 5, False, 0.25),
]


def attention_scores(q, k, causal, scale):
    """The scores, and the magnitudes that bound their rounding."""
    scale = scale or 1 / np.sqrt(q.shape[3])
    scores = scale * np.einsum("bhqd,bhkd->bhqk", q, k)
    amount = scale * np.einsum("bhqd,bhkd->bhqk", np.abs(q), np.abs(k))
    queries, keys = scores.shape[2:]
    if causal:
        seen = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + (keys - queries)
        scores = np.where(seen, scores, -np.inf)
    return scores, amount, scale


def attended(q, k, v, causal, scale):
    name, (q, k, v) = dt.name_of(q), (dt.to_f64(a) for a in (q, k, v))
    scores, amount, _ = attention_scores(q, k, causal, scale)
    keys = scores.shape[3]
    if keys == 0:
        lse = np.full(q.shape[:3], -np.inf)
        return Close(np.zeros((*q.shape[:3], v.shape[3])), name), Close(lse, WIDE[name])
    most = scores.max(3, keepdims=True)
    weights = np.exp(scores - most)
    total = weights.sum(3, keepdims=True)
    weights /= total
    y = np.einsum("bhqk,bhkd->bhqd", weights, v)
    # The rounding of a score is amplified by its size.
    spread = np.einsum("bhqk,bhkd->bhqd", weights * (1 + amount + amount.max(3, keepdims=True)), np.abs(v))
    length = max(q.shape[3], keys)
    lse = (most + np.log(total))[..., 0]
    return Close(y, name, spread, length), Close(lse, WIDE[name], 1 + amount.max(3) + np.abs(lse), length)


def attention_cases(row):
    for i, name in enumerate(dt.FLOATS):
        for j in range(5):
            shape, keys, width, causal, scale = ATTENTIONS[(5 * i + j) % len(ATTENTIONS)]
            q = dt.sample(row.rng, name, shape, 1)
            k = dt.sample(row.rng, name, (*shape[:2], keys, shape[3]), 1)
            v = dt.sample(row.rng, name, (*shape[:2], keys, width), 1)
            yield name, [q, k, v], {"causal": causal, "scale": scale}


def attention(op):
    row = Row(op)
    for _, operands, attrs in attention_cases(row):
        row.check(f"composite {op}", attrs, operands, *attended(*operands, **attrs))
    return row


def attention_grad(op):
    """By the formula, of the results as they were rounded."""
    row = Row(op)
    for name, operands, attrs in attention_cases(row):
        o, lse = attended(*operands, **attrs)
        o, lse = dt.round_to(o.value, name), dt.round_to(lse.value, WIDE[name])
        grad = dt.sample(row.rng, name, o.shape, 1)
        operands += [o, lse, grad]
        q, k, v, o, lse, grad = (dt.to_f64(a) for a in operands)
        scores, amount, scale = attention_scores(q, k, **attrs)
        weights = np.exp(scores - lse[..., None])
        inner = np.einsum("bhqe,bhke->bhqk", grad, v) - (grad * o).sum(3, keepdims=True)
        size = np.einsum("bhqe,bhke->bhqk", *map(np.abs, (grad, v))) + np.abs(grad * o).sum(3, keepdims=True)
        amplified = weights * (1 + amount + np.abs(lse[..., None]))
        size = amplified * size * scale
        dscores = weights * inner * scale
        results = [
            (np.einsum(by, a, x), np.einsum(by, magnitude, np.abs(x)))
            for by, a, magnitude, x in [
                ("bhqk,bhkd->bhqd", dscores, size, k),
                ("bhqk,bhqd->bhkd", dscores, size, q),
                ("bhqk,bhqe->bhke", weights, amplified, grad),
            ]
        ]
        depth = max(*q.shape[2:], *v.shape[2:], 1)
        row.check(
            f"composite {op}", attrs, operands, *(Close(value, name, size, depth) for value, size in results)
        )
    return row


def embedding(op):
    row = Row(op)
    cases = [
        ((7, 3), [0, 6, 3, 3]),
        ((5, 11), [[1, 2, 3], [4, 0, 0]]),
        ((3, 5), []),
        ((3, 0), [1, 2]),
        ((1, 1), 0),
        ((11, 7), [99, 10, 0]),
    ]
    for i, name in enumerate(dt.ANY):
        for j in range(2):
            shape, indices = cases[(2 * i + j) % len(cases)]
            table = dt.sample_bits(row.rng, name, shape)
            indices = np.array(indices, dt.NUMPY[["i32", "i64", "u8", "i16"][(i + j) % 4]])
            row.check(
                f"composite {op}",
                None,
                [table, indices],
                Exact(table[np.clip(indices.astype(int), 0, shape[0] - 1)]),
            )
    x, indices = np.arange(15, dtype=np.float32).reshape(5, 3), np.array([-7, 7, 2], np.int32)
    row.check(f"composite {op}", None, [x, indices], Exact(x[[0, 4, 2]]))
    return row


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_formula(x, h, c, w, r, w_bias, r_bias, xp=np, sigmoid=sigmoid):
    ys, n = [], h.shape[1]
    for step in x:
        gates = step @ w.T + w_bias + h @ r.T + r_bias
        i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * xp.tanh(g)
        h = sigmoid(o) * xp.tanh(c)
        ys.append(h)
    return xp.array(ys).reshape(len(x), *h.shape), h, c


def gru_formula(x, h, w, r, w_bias, r_bias, xp=np, sigmoid=sigmoid):
    ys, n = [], h.shape[1]
    for step in x:
        inner, hidden = step @ w.T + w_bias, h @ r.T + r_bias
        reset = sigmoid(inner[:, :n] + hidden[:, :n])
        update = sigmoid(inner[:, n : 2 * n] + hidden[:, n : 2 * n])
        fresh = xp.tanh(inner[:, 2 * n :] + reset * hidden[:, 2 * n :])
        h = (1 - update) * fresh + update * h
        ys.append(h)
    return xp.array(ys).reshape(len(x), *h.shape), h


# length, batch, inputs, hidden
RECURRENT = [(3, 2, 5, 3), (1, 1, 1, 1), (0, 3, 2, 5), (5, 1, 3, 7), (3, 0, 5, 3), (7, 3, 3, 2), (2, 1, 0, 3)]


def recurrent_cases(row, gates, states, each):
    """Dtype, operands, and how many terms a number is a sum of; so many cases of each dtype."""
    for i, name in enumerate(dt.FLOATS):
        for j in range(each):
            length, batch, inputs, hidden = RECURRENT[(each * i + j) % len(RECURRENT)]
            shapes = [(length, batch, inputs)] + [(batch, hidden)] * states
            shapes += [
                (gates * hidden, inputs),
                (gates * hidden, hidden),
                (gates * hidden,),
                (gates * hidden,),
            ]
            # Gates are sums of inputs + hidden products; states carry their errors over the steps.
            terms = (inputs + hidden + 2) * max(length, 1)
            yield name, [dt.sample(row.rng, name, shape, 0.5) for shape in shapes], terms


def recurrent(op, gates, states, formula):
    row = Row(op)
    for name, operands, terms in recurrent_cases(row, gates, states, 3):
        results = []
        for value in formula(*(dt.to_f64(v) for v in operands)):
            results.append(Close(value, name, np.maximum(np.abs(value), 1), terms))
        row.check(f"composite {op}", None, operands, *results)
    return row


def recurrent_grad(op, gates, states, formula):
    """By JAX, through the steps; the composite is given the first result as it was rounded."""
    row = Row(op)
    for name, operands, terms in recurrent_cases(row, gates, states, 1):
        layer = [dt.to_f64(v) for v in operands]
        results, pull = jax.vjp(lambda *a: formula(*a, xp=jax.numpy, sigmoid=jax.nn.sigmoid), *layer)
        grads = [dt.sample(row.rng, name, np.shape(value), 1) for value in results]
        expected = []
        for value in pull(tuple(jax.numpy.asarray(dt.to_f64(g)) for g in grads)):
            value = np.asarray(value)
            size = max(1.0, np.max(np.abs(value), initial=0))
            batch = operands[0].shape[1]
            expected.append(Close(value, name, np.full(value.shape, size), terms * max(batch, 1)))
        y = dt.round_to(np.asarray(results[0]), name)
        row.check(f"composite {op}", None, [*grads, y, *operands], *expected)
    return row


def lstm_grad(op):
    return recurrent_grad(op, 4, 2, lstm_formula)


def gru_grad(op):
    return recurrent_grad(op, 3, 1, gru_formula)


def lstm(op):
    return recurrent(op, 4, 2, lstm_formula)


def gru(op):
    return recurrent(op, 3, 1, gru_formula)


# operand, window, strides, low, high
POOLS = [
    ((1, 5, 7, 3), (2, 2), (2, 2), None, None),
    ((2, 7, 3), (3,), (1,), (1,), (1,)),
    ((1, 5, 5, 1), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((0, 5, 5, 2), (2, 2), (1, 1), None, None),
    ((1, 3, 5, 3, 1), (2, 2, 2), (1, 2, 1), (0, 1, 0), (0, 0, 1)),
    ((1, 1, 1), (1,), (1,), None, None),
    ((3, 11, 5), (5,), (3,), (0,), (2,)),
    ((1, 3, 0), (2,), (1,), None, None),
]


def pool_attributes(window, strides, low, high):
    attrs = {"window": window, "strides": strides}
    return attrs | ({} if low is None else {"pad_low": low, "pad_high": high})


def over_all_axes(window, strides, low, high):
    pads = [None if v is None else (0, *v, 0) for v in (low, high)]
    return (1, *window, 1), (1, *strides, 1), *pads, None, None


def max_pool(op):
    row = Row(op)
    for i, name in enumerate(dt.NUMBERS):
        for j in range(3):
            shape, *pool = POOLS[(3 * i + j) % len(POOLS)]
            x = dt.sample(row.rng, name, shape)
            row.check(
                f"composite {op}", pool_attributes(*pool), [x], windowed(x, "max", *over_all_axes(*pool))
            )
    x = np.array([1, np.nan, -2, -np.inf, -np.inf, -np.inf, np.inf], np.float32).reshape(1, 7, 1)
    row.check(
        f"composite {op}",
        pool_attributes(*POOLS[1][1:]),
        [x],
        windowed(x, "max", *over_all_axes(*POOLS[1][1:])),
    )
    return row


def avg_pool(op):
    row = Row(op)
    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            shape, *pool = POOLS[(4 * i + j) % len(POOLS)]
            count_padding = j % 2 == 0
            x = dt.sample(row.rng, name, shape)
            total = windowed(x, "sum", *over_all_axes(*pool))
            elements = windowed(np.ones(shape, np.float64), "sum", *over_all_axes(*pool)).value
            count = np.prod(pool[0]) if count_padding else elements
            attrs = pool_attributes(*pool) | {"count_padding": count_padding}
            row.check(
                f"composite {op}",
                attrs,
                [x],
                Close(total.value / count, name, total.scale / count, int(np.prod(pool[0]))),
            )
    return row


def convolution_gradient(op, with_respect_to):
    """JAX's vjp of its convolution; the scale is the same linear map of magnitudes."""
    row, number = Row(op), 0
    usable = [c for c in CONVOLUTIONS if c.get("batch_groups", 1) == 1]
    for name in dt.FLOATS:
        for _ in range(5 if name in ("f32", "f64") else 3):
            c = usable[number % len(usable)]
            number += 1
            x, w = dt.sample(row.rng, name, c["x"], 1), dt.sample(row.rng, name, c["w"], 1)
            y_shape = convolved(np.zeros(c["x"]), np.zeros(c["w"]), c).shape
            grad = dt.sample(row.rng, name, y_shape, 1)

            def pulled_back(x, w, grad):
                if 0 in (x.size, w.size, grad.size):
                    return np.zeros((x, w)[with_respect_to].shape)
                _, pull = jax.vjp(lambda x, w: traced_convolution(x, w, c), x, w)
                return np.asarray(pull(grad)[with_respect_to])

            wide = [dt.to_f64(v) for v in (x, w, grad)]
            value, scale = pulled_back(*wide), pulled_back(*(np.abs(v) for v in wide))
            k = int(np.prod(c["w"])) if with_respect_to == 0 else int(np.prod(y_shape))
            keys = ["layout", *SPATIAL_DEFAULTS, "feature_groups"]
            attrs = {key: c[key] for key in keys if key in c} | {"shape": (c["x"], c["w"])[with_respect_to]}
            other = (w, x)[with_respect_to]
            row.check(f"composite {op}", attrs, [grad, other], Close(value, name, scale, max(k, 1)))
    return row


def conv_input_grad(op):
    return convolution_gradient(op, 0)


def conv_weight_grad(op):
    return convolution_gradient(op, 1)


ROWS = {
    "gelu": gelu,
    "attention": attention,
    "attention_grad": attention_grad,
    "embedding": embedding,
    "lstm": lstm,
    "lstm_grad": lstm_grad,
    "gru": gru,
    "gru_grad": gru_grad,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "conv_input_grad": conv_input_grad,
    "conv_weight_grad": conv_weight_grad,
}
