"""Movement ops that need no indices. Each is applied to the positions of the elements, by numpy or JAX, and
the elements are then taken from there: so one computation serves every dtype, bit for bit.
"""

import jax
import numpy as np

from . import dtypes as dt
from .row import Exact, Row


def positions(shape):
    return np.arange(int(np.prod(shape))).reshape(shape)


def each_dtype(op, configurations):
    """Three configurations per dtype, rotating, so that each dtype is moved and each configuration is tried.

    A configuration is (operand shape, attributes, function from positions to positions).
    """
    row, count = Row(op), len(configurations)
    for i, name in enumerate(dt.ANY):
        for j in range(3):
            shape, attrs, move = configurations[(3 * i + j) % count]
            x = dt.sample_bits(row.rng, name, shape)
            row.check(op, attrs, [x], Exact(x.ravel()[move(positions(shape))]))
    return row


def reshape(op):
    pairs = [
        ((3, 5), (15,)),
        ((0, 3), (5, 0)),
        ((), (1, 1)),
        ((2, 3, 11), (6, 11)),
        ((1,), ()),
        ((67,), (1, 67, 1)),
        ((7, 3), (3, 7)),
    ]
    return each_dtype(op, [(a, {"shape": b}, lambda x, b=b: x.reshape(b)) for a, b in pairs])


def transpose(op):
    pairs = [
        ((3, 5), (1, 0)),
        ((2, 3, 11), (2, 0, 1)),
        ((0, 3), (1, 0)),
        ((), ()),
        ((2, 3, 2, 5), (0, 3, 1, 2)),
        ((7,), (0,)),
        ((1, 7, 3), (1, 2, 0)),
    ]
    return each_dtype(op, [(a, {"permutation": p}, lambda x, p=p: x.transpose(p)) for a, p in pairs])


def broadcast(op):
    cases = [
        ((), (3, 5), ()),
        ((5,), (3, 5), (1,)),
        ((3,), (3, 5), (0,)),
        ((1, 7), (3, 5, 7), (1, 2)),
        ((3, 1), (3, 11), (0, 1)),
        ((1,), (0, 3), (1,)),
        ((3, 5), (3, 5), (0, 1)),
        ((2, 3), (2, 5, 3, 7), (0, 2)),
        ((0,), (3, 0), (1,)),
        ((), (), ()),
    ]

    def move(x, shape, axes):
        spread = [1] * len(shape)
        for size, axis in zip(x.shape, axes):
            spread[axis] = size
        return np.broadcast_to(x.reshape(spread), shape)

    return each_dtype(
        op, [(a, {"shape": s, "axes": x}, lambda v, s=s, x=x: move(v, s, x)) for a, s, x in cases]
    )


def slice_(op):
    cases = [
        ((7,), (1,), (6,), (2,)),
        ((3, 5), (0, 1), (3, 4), (1, 1)),
        ((67,), (3,), (67,), (7,)),
        ((3, 5), (1, 2), (1, 5), (1, 3)),
        ((0, 3), (0, 1), (0, 3), (1, 1)),
        ((), (), (), ()),
        ((2, 3, 11), (0, 0, 10), (2, 3, 11), (1, 2, 1)),
        ((5, 7), (0, 0), (5, 7), (100, 3)),
    ]

    def move(x, starts, limits, strides):
        return x[tuple(slice(*triple) for triple in zip(starts, limits, strides))]

    return each_dtype(
        op,
        [
            (a, {"starts": b, "limits": e, "strides": s}, lambda x, b=b, e=e, s=s: move(x, b, e, s))
            for a, b, e, s in cases
        ],
    )


def reverse(op):
    pairs = [
        ((7,), (0,)),
        ((3, 5), (0, 1)),
        ((3, 5), (1,)),
        ((2, 3, 11), (2, 0)),
        ((0, 3), (0,)),
        ((1,), (0,)),
        ((), ()),
        ((67,), (0,)),
    ]
    return each_dtype(op, [(a, {"axes": x}, lambda v, x=x: np.flip(v, x)) for a, x in pairs])


def pad(op):
    cases = [
        ((7,), (2,), (3,), (0,)),
        ((3, 5), (1, 0), (0, 2), (2, 1)),
        ((7,), (-2,), (-1,), (0,)),
        ((7,), (-2,), (4,), (3,)),
        ((0, 3), (2, 1), (1, 0), (0, 0)),
        ((), (), (), ()),
        ((2, 3, 11), (0, -1, 1), (1, 1, -3), (0, 2, 0)),
        ((3,), (-3,), (0,), (0,)),
        ((5,), (-7,), (3,), (1,)),
        ((0,), (3,), (0,), (2,)),
        ((67,), (1,), (1,), (0,)),
    ]
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        for j in range(3):
            shape, low, high, interior = cases[(3 * i + j) % len(cases)]
            x, value = dt.sample_bits(row.rng, name, shape), dt.sample_bits(row.rng, name, ())
            moved = jax.lax.pad(positions(shape) + 1, np.int64(0), list(zip(low, high, interior)))
            y = np.concatenate([value.reshape(1), x.ravel()])[np.asarray(moved)]
            row.check(op, {"low": low, "high": high, "interior": interior}, [x, value], Exact(y))
    return row


def concat(op):
    cases = [
        ([(7,)], 0),
        ([(3, 5), (3, 2)], 1),
        ([(3, 5), (1, 5), (2, 5)], 0),
        ([(0, 3), (0, 3)], 0),
        ([(3,), (0,), (5,)], 0),
        ([(2, 3, 11), (2, 1, 11)], 1),
        ([(1,), (1,), (1,), (1,), (1,)], 0),
        ([(33,), (34,)], 0),
    ]
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        for j in range(2):
            shapes, axis = cases[(2 * i + j) % len(cases)]
            xs = [dt.sample_bits(row.rng, name, shape) for shape in shapes]
            row.check(op, {"axis": axis}, xs, Exact(np.concatenate(xs, axis)))
    return row


ROWS = {
    "reshape": reshape,
    "transpose": transpose,
    "broadcast": broadcast,
    "slice": slice_,
    "pad": pad,
    "concat": concat,
    "reverse": reverse,
}
