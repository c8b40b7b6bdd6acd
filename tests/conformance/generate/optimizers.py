"""Optimiser updates, by the formulas of torch.optim in f64."""

import numpy as np

from . import dtypes as dt
from .normalization import WIDE
from .row import Close, Row

SHAPES = [(3, 5), (19,), (0, 3), (), (1,), (2, 3, 5), (7,)]


def states(row, name, shape, mixed, count):
    """Parameter and gradients; state and scalars of small floats may be f32."""
    return [dt.sample(row.rng, WIDE[name] if mixed and i > 0 else name, shape, 1) for i in range(count)]


def scalar(value, like):
    return dt.round_to(value, dt.name_of(like))


def each_case(row):
    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            yield name, SHAPES[(4 * i + j) % len(SHAPES)], j == 3, j


def sgd_update(op):
    row = Row(op)
    for name, shape, mixed, j in each_case(row):
        p, g = states(row, name, shape, mixed, 2)
        lr, decay = scalar([0.125, 0.5][j % 2], g), [0.0, 0.01][j // 2]
        wide = [dt.to_f64(v) for v in (p, g, lr)]
        change = wide[2] * (wide[1] + decay * wide[0])
        scale = np.abs(wide[0]) + wide[2] * (np.abs(wide[1]) + decay * np.abs(wide[0]))
        row.check(
            f"composite {op}", {"weight_decay": decay}, [p, g, lr], Close(wide[0] - change, name, scale)
        )
    return row


def momentum_update(op):
    row = Row(op)
    for name, shape, mixed, j in each_case(row):
        p, g, v = states(row, name, shape, mixed, 3)
        lr, decay, momentum, nesterov = scalar(0.25, g), [0.0, 0.01][j // 2], [0.9, 0.5][j % 2], j in (1, 2)

        def update(p, g, v, lr, sign):
            g = g + decay * p
            v = momentum * v + g
            return p + sign * lr * (g + momentum * v if nesterov else v), v

        wide = [dt.to_f64(x) for x in (p, g, v, lr)]
        values, scales = update(*wide, -1), update(*(np.abs(x) for x in wide), 1)
        attrs = {"momentum": momentum, "weight_decay": decay, "nesterov": nesterov}
        results = [Close(values[0], name, scales[0]), Close(values[1], dt.name_of(v), scales[1])]
        row.check(f"composite {op}", attrs, [p, g, v, lr], *results)
    return row


def adam_row(op, decoupled, decays):
    row = Row(op)
    for name, shape, mixed, j in each_case(row):
        p, g, m, v = states(row, name, shape, mixed, 4)
        v = dt.round_to(np.abs(dt.to_f64(v)), dt.name_of(v))
        lr, step = scalar(0.125, g), scalar([1, 2, 7, 1000 if mixed or name in ("f64", "f32") else 12][j], g)
        decay, (beta1, beta2, eps) = decays[j % len(decays)], [(0.9, 0.999, 1e-8), (0.8, 0.95, 1e-3)][j % 2]

        def update(p, g, m, v, lr, step, sign):
            """With sign 1 and magnitudes for operands: the scale."""
            if decoupled:
                p = p * (1 + sign * lr * decay)
            else:
                g = g + decay * p
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            return p, m, v

        wide = [dt.to_f64(x) for x in (p, g, m, v, lr, step)]
        kept, m_new, v_new = update(*wide, -1)
        kept_scale, m_scale, v_scale = update(*(np.abs(x) for x in wide), 1)
        deviation = np.sqrt(v_new) / np.sqrt(1 - beta2 ** wide[5]) + eps
        rate = wide[4] / (1 - beta1 ** wide[5]) / deviation
        attrs = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": decay}
        # Where the decayed gradient cancels, v's own rounding matters: by v_scale / v_new.
        growth = np.where(v_new > 0, v_scale / np.where(v_new > 0, v_new, 1), 1)
        results = [
            Close(kept - rate * m_new, name, kept_scale + rate * m_scale * growth),
            Close(m_new, dt.name_of(m), m_scale),
            Close(v_new, dt.name_of(v), v_scale),
        ]
        row.check(f"composite {op}", attrs, [p, g, m, v, lr, step], *results)
    return row


def adam_update(op):
    return adam_row(op, False, [0.0, 0.01])


def adamw_update(op):
    return adam_row(op, True, [0.01, 0.0, 0.1])


ROWS = {
    "sgd_update": sgd_update,
    "momentum_update": momentum_update,
    "adam_update": adam_update,
    "adamw_update": adamw_update,
}
