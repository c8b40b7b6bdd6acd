"""softmax, log_softmax, cross_entropy and the normalisations with their gradients, by formula in f64.

An error scale is the formula with every subtraction turned into a sum of magnitudes: what rounding each step
once can cost. The exponential of a difference d adds d to it, which is how it amplifies the rounding of d.
"""

import numpy as np

from . import dtypes as dt
from .row import Close, Row

# Parameters of small floats may also be f32.
WIDE = {"f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32", "f8e4m3fn": "f32", "f8e5m2": "f32"}


def exponentials(x, axis):
    """x minus the maximum, its exponential, their sum, and the amplification of the rounding."""
    if x.shape[axis] == 0:
        return x, x, np.zeros_like(x.sum(axis, keepdims=True)), x
    centered = x - x.max(axis, keepdims=True)
    weights = np.exp(centered)
    return (
        centered,
        weights,
        weights.sum(axis, keepdims=True),
        1 + np.where(np.isfinite(centered), np.abs(centered), 0),
    )


AXIS_CASES = [((3, 5), -1), ((7,), 0), ((2, 3, 11), 1), ((0, 5), -1), ((3, 0), 1), ((1, 1), 0), ((5, 67), -1)]


def softmax_rows(op, function):
    row = Row(op)
    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            shape, axis = AXIS_CASES[(4 * i + j) % len(AXIS_CASES)]
            x = dt.sample(row.rng, name, shape, 3)
            row.check(f"composite {op}", {"axis": axis}, [x], function(x, axis))
        # Large values, a row of -inf, NaN, and a single infinity.
        values = [
            [100, 101, 99],
            [-np.inf, 0, 1],
            [-np.inf, -np.inf, -np.inf],
            [np.nan, 1, 2],
            [np.inf, 0, 1],
            [-200, -200, -200],
        ]
        x = dt.round_to(np.clip(values, -np.inf, np.inf), name)
        row.check(f"composite {op}", {"axis": 1}, [x], function(x, 1))
    return row


def softmax(op):
    def expected(x, axis):
        name, x = dt.name_of(x), dt.to_f64(x)
        _, weights, total, amplification = exponentials(x, axis)
        y = weights / total
        return Close(y, name, y * amplification, max(x.shape[axis], 1))

    return softmax_rows(op, expected)


def log_softmax(op):
    def expected(x, axis):
        name, x = dt.name_of(x), dt.to_f64(x)
        centered, _, total, amplification = exponentials(x, axis)
        y = centered - np.log(total)
        return Close(y, name, amplification + np.abs(np.log(total)), max(x.shape[axis], 1))

    return softmax_rows(op, expected)


def cross_entropy(op):
    row = Row(op)
    shapes = [(3, 5), (7, 11), (0, 5), (1, 1), (2, 3, 7), (5,), (3, 67)]
    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            shape = shapes[(4 * i + j) % len(shapes)]
            label_type = ["i32", "i64", "u8", "u32"][(i + j) % 4]
            x = dt.sample(row.rng, name, shape, 3)
            labels = row.rng.integers(0, shape[-1], shape[:-1]).astype(dt.NUMPY[label_type])
            if j == 3 and labels.size > 2:
                labels.flat[0] = 99  # no class
                labels.flat[1] = 0 if label_type[0] == "u" else -3
            logits = dt.to_f64(x)
            centered, _, total, _ = exponentials(logits, -1)
            at = labels.astype(np.int64)
            is_class = (at >= 0) & (at < shape[-1])
            label_logit = np.take_along_axis(centered, np.where(is_class, at, 0)[..., None], -1)[..., 0]
            log_total = np.log(total)[..., 0]
            scale = 1 + np.abs(log_total) + np.abs(label_logit)
            y = np.where(is_class, log_total - label_logit, np.nan)
            row.check(f"composite {op}", None, [x, labels], Close(y, name, scale, shape[-1]))
    return row


class Statistics:
    """Means over axes, kept as size 1, and the magnitudes that bound their rounding."""

    def __init__(self, x, axes, eps, mean=None, variance=None):
        self.count = int(np.prod([x.shape[a] for a in axes]))
        self.axes = tuple(axes)
        self.mean = self.average(x) if mean is None else mean
        self.centered = x - self.mean
        self.variance = self.average(self.centered**2) if variance is None else variance
        self.inverse = 1 / np.sqrt(self.variance + eps)
        self.normal = self.centered * self.inverse
        self.amount = np.abs(x) + (self.average(np.abs(x)) if mean is None else np.abs(mean))
        self.normal_scale = self.amount * self.inverse

    def average(self, x):
        return x.sum(self.axes, keepdims=True) / self.count

    def grad(self, g, g_scale):
        """The gradient through the normalisation, and its scale."""
        value = self.inverse * (g - self.average(g) - self.normal * self.average(g * self.normal))
        through = self.normal_scale * self.average(g_scale * self.normal_scale)
        return value, self.inverse * (g_scale + self.average(g_scale) + through)


def parameters(row, name, shape, mixed, count):
    """Random parameters of the operand's dtype or, when mixed, of the one it is computed in."""
    return [dt.sample(row.rng, WIDE[name] if mixed else name, shape, 1) for _ in range(count)]


LAYER_CASES = [
    ((3, 5), 1),
    ((3, 11), 1),
    ((2, 3, 5), 2),
    ((0, 5), 1),
    ((1, 1), 1),
    ((2, 19), 1),
    ((5, 3), 2),
    ((7,), 1),
]


def layer_norm(op):
    row = Row(op)
    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            shape, axes = LAYER_CASES[(4 * i + j) % len(LAYER_CASES)]
            eps = [1e-5, 0.125][j % 2]
            x = dt.sample(row.rng, name, shape)
            scale, bias = parameters(row, name, shape[-axes:], j == 2, 2)
            s = Statistics(dt.to_f64(x), range(len(shape) - axes, len(shape)), eps)
            y = s.normal * dt.to_f64(scale) + dt.to_f64(bias)
            amount = s.normal_scale * np.abs(dt.to_f64(scale)) + np.abs(dt.to_f64(bias))
            row.check(
                f"composite {op}",
                {"eps": eps, "axes": axes},
                [x, scale, bias],
                Close(y, name, amount, max(s.count, 1)),
            )
    return row


def layer_norm_grad(op):
    row = Row(op)
    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            shape, axes = LAYER_CASES[(4 * i + j) % len(LAYER_CASES)]
            grad, x = dt.sample(row.rng, name, shape, 1), dt.sample(row.rng, name, shape)
            (scale,) = parameters(row, name, shape[-axes:], j == 2, 1)
            s = Statistics(dt.to_f64(x), range(len(shape) - axes, len(shape)), 1e-5)
            g = dt.to_f64(grad)
            value, amount = s.grad(g * dt.to_f64(scale), np.abs(g * dt.to_f64(scale)))
            leading = tuple(range(len(shape) - axes))
            rows = max(int(np.prod(shape[:-axes])), 1)
            results = [
                Close(value, name, amount, max(s.count, 1)),
                Close(
                    (g * s.normal).sum(leading),
                    dt.name_of(scale),
                    (np.abs(g) * s.normal_scale).sum(leading),
                    rows * s.count,
                ),
                Close(g.sum(leading), dt.name_of(scale), np.abs(g).sum(leading), rows),
            ]
            row.check(f"composite {op}", {"axes": axes}, [grad, x, scale], *results)
    return row


BATCH_CASES = [
    ((7, 3), -1),
    ((5, 3), 1),
    ((2, 3, 5, 3), -1),
    ((3, 5, 3), 1),
    ((3, 0), -1),
    ((19, 1), 1),
    ((3, 11), 0),
]


def batch_cases(row):
    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            shape, axis = BATCH_CASES[(4 * i + j) % len(BATCH_CASES)]
            features = shape[axis]
            others = [a for a in range(len(shape)) if a != axis % len(shape)]
            spread = [features if a not in others else 1 for a in range(len(shape))]
            yield name, shape, axis, features, others, (
                lambda v, spread=spread: dt.to_f64(v).reshape(spread)
            ), j == 2


def batch_norm_train(op):
    row = Row(op)
    for name, shape, axis, features, others, spread, mixed in batch_cases(row):
        x = dt.sample(row.rng, name, shape)
        scale, bias = parameters(row, name, (features,), mixed, 2)
        s = Statistics(dt.to_f64(x), others, 1e-5)
        y = s.normal * spread(scale) + spread(bias)
        amount = s.normal_scale * np.abs(spread(scale)) + np.abs(spread(bias))
        statistic = dt.name_of(scale)
        spread_scale = s.average(np.abs(s.centered) * s.amount)
        results = [
            Close(y, name, amount, s.count),
            Close(
                s.mean.reshape(features),
                statistic,
                s.average(np.abs(dt.to_f64(x))).reshape(features),
                s.count,
            ),
            Close(
                s.variance.reshape(features),
                statistic,
                (s.variance + spread_scale).reshape(features),
                s.count,
            ),
        ]
        row.check(f"composite {op}", {"axis": axis}, [x, scale, bias], *results)
    return row


def positive(row, name, shape):
    return dt.round_to(row.rng.choice([0.25, 0.5, 1.0, 2.0, 3.0], shape), name)


def batch_norm_inference(op):
    row = Row(op)
    for name, shape, axis, features, others, spread, mixed in batch_cases(row):
        x = dt.sample(row.rng, name, shape)
        scale, bias, mean = parameters(row, name, (features,), mixed, 3)
        variance = positive(row, dt.name_of(scale), (features,))
        s = Statistics(dt.to_f64(x), others, 0.125, spread(mean), spread(variance))
        y = s.normal * spread(scale) + spread(bias)
        amount = s.normal_scale * np.abs(spread(scale)) + np.abs(spread(bias))
        attrs = {"eps": 0.125, "axis": axis}
        row.check(f"composite {op}", attrs, [x, scale, bias, mean, variance], Close(y, name, amount))
    # An empty batch has statistics of its own here.
    x, scale, bias, mean, variance = (np.ones(s, np.float32) for s in [(0, 3), 3, 3, 3, 3])
    row.check(f"composite {op}", None, [x, scale, bias, mean, variance], Close(np.ones((0, 3)), "f32"))
    return row


def batch_norm_grad(op):
    row = Row(op)
    for name, shape, axis, features, others, spread, mixed in batch_cases(row):
        grad, x = dt.sample(row.rng, name, shape, 1), dt.sample(row.rng, name, shape)
        (scale,) = parameters(row, name, (features,), mixed, 1)
        # The statistics as the forward pass returns them, rounded.
        exact = Statistics(dt.to_f64(x), others, 1e-5)
        mean, variance = (
            dt.round_to(v.reshape(features), dt.name_of(scale)) for v in (exact.mean, exact.variance)
        )
        s = Statistics(dt.to_f64(x), others, 1e-5, spread(mean), spread(variance))
        g = dt.to_f64(grad)
        value, amount = s.grad(g * spread(scale), np.abs(g * spread(scale)))
        axes, statistic = tuple(others), dt.name_of(scale)
        results = [
            Close(value, name, amount, s.count),
            Close((g * s.normal).sum(axes), statistic, (np.abs(g) * s.normal_scale).sum(axes), s.count),
            Close(g.sum(axes), statistic, np.abs(g).sum(axes), s.count),
        ]
        row.check(f"composite {op}", {"axis": axis}, [grad, x, scale, mean, variance], *results)
    return row


ROWS = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "cross_entropy": cross_entropy,
    "layer_norm": layer_norm,
    "layer_norm_grad": layer_norm_grad,
    "batch_norm_train": batch_norm_train,
    "batch_norm_inference": batch_norm_inference,
    "batch_norm_grad": batch_norm_grad,
}
