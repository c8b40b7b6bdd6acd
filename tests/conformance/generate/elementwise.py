"""Elementwise primitives without attributes.

Every dtype gets one case of special values and one of a prime shape, every second one a tiny or empty shape;
the shapes rotate over the dtypes. Functions of floats are computed in long double from the exact operands.
"""

import numpy as np
import scipy.special

from . import dtypes as dt
from .row import Close, Exact, Row

SIGNED_ZEROS = [0.0, -0.0]


def prime_shape(i):
    return dt.PRIME_SHAPES[i % len(dt.PRIME_SHAPES)]


def tiny_shapes(i):
    """A scalar, empty or single-element shape for every second dtype."""
    return [dt.TINY_SHAPES[i // 2 % len(dt.TINY_SHAPES)]] if i % 2 == 0 else []


def in_long_double(function):
    return lambda *xs: function(*(dt.to_f64(x).astype(np.longdouble) for x in xs)).astype(np.float64)


def keep_type(function):
    """An exact function: floats go through f64 and back, integers stay."""

    def apply(*xs):
        name = dt.name_of(xs[0])
        if name not in dt.FLOATS:
            return function(*xs).astype(xs[0].dtype)
        return dt.round_to(function(*(dt.to_f64(x) for x in xs)), name)

    return apply


def logistic(x):
    return 1 / (1 + np.exp(-x))


# name: (dtypes, function, whether the result is a bool or has the operand's type)
EXACT_UNARY = {
    "abs": (dt.SIGNED, keep_type(np.abs)),
    "neg": (dt.SIGNED, keep_type(np.negative)),
    "sign": (dt.SIGNED, keep_type(lambda x: np.where(x == 0, x, np.sign(x)))),
    "floor": (dt.FLOATS, keep_type(np.floor)),
    "ceil": (dt.FLOATS, keep_type(np.ceil)),
    "round": (dt.FLOATS, keep_type(np.rint)),
    "is_finite": (dt.FLOATS, lambda x: np.isfinite(dt.to_f64(x))),
    "bitwise_not": (dt.BITS, np.invert),
}
CLOSE_UNARY = {
    "exp": in_long_double(np.exp),
    "expm1": in_long_double(np.expm1),
    "log": in_long_double(np.log),
    "log1p": in_long_double(np.log1p),
    "sqrt": in_long_double(np.sqrt),
    "rsqrt": in_long_double(lambda x: 1 / np.sqrt(x)),
    "cbrt": in_long_double(np.cbrt),
    "sin": in_long_double(np.sin),
    "cos": in_long_double(np.cos),
    "tan": in_long_double(np.tan),
    "tanh": in_long_double(np.tanh),
    "logistic": in_long_double(logistic),
    "erf": lambda x: scipy.special.erf(dt.to_f64(x)),
}
# Where -0 must come out as -0.
ODD_AT_ZERO = {"sqrt", "cbrt"}


def unary_operands(row, name, i):
    special = dt.specials(name)
    yield np.concatenate([special, dt.sample(row.rng, name, (67 - len(special),), 3)])
    yield dt.sample(row.rng, name, prime_shape(i), 1)
    for shape in tiny_shapes(i):
        yield dt.sample(row.rng, name, shape)


def exact_unary(op):
    row, (names, function) = Row(op), EXACT_UNARY[op]
    for i, name in enumerate(names):
        for x in unary_operands(row, name, i):
            row.check(op, None, [x], Exact(function(x)))
    return row


def close_unary(op):
    row, function = Row(op), CLOSE_UNARY[op]
    for i, name in enumerate(dt.FLOATS):
        for x in unary_operands(row, name, i):
            row.check(op, None, [x], Close(function(x), name))
        if op in ODD_AT_ZERO:
            zeros = dt.round_to(SIGNED_ZEROS, name)
            row.check(op, None, [zeros], Exact(zeros))
    return row


def integer_function(function):
    """A function of Python integers, with the width, applied to every pair and wrapped."""

    def apply(a, b):
        name = dt.name_of(a)
        width = dt.width_of(name)
        values = [function(int(x), int(y), width) for x, y in zip(a.ravel(), b.ravel())]
        return dt.wrap(np.array(values, dtype=object).reshape(a.shape), name)

    return apply


def truncated_div(a, b, width):
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def integer_rem(a, b, width):
    return a if b == 0 else a - b * truncated_div(a, b, width)


def integer_pow(a, b, width):
    if b >= 0:
        return pow(a, b, 1 << width)
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


def shift_left(a, b, width):
    return a << b if 0 <= b < width else 0


def shift_right(a, b, width):
    return a >> (b if 0 <= b < width else width)


def shift_right_logical(a, b, width):
    return (a & ((1 << width) - 1)) >> b if 0 <= b < width else 0


def with_floats(integers, floats):
    return lambda a, b: floats(a, b) if dt.name_of(a) in dt.FLOATS else integers(a, b)


def compare(function):
    """Integers are compared as themselves, floats as f64."""
    return lambda a, b: function(*((dt.to_f64(a), dt.to_f64(b)) if dt.name_of(a) in dt.FLOATS else (a, b)))


# a + b in f64 may round; long double then rounds once more, far inside the tolerance.
CLOSE_BINARY = {
    "add": (dt.NUMBERS, with_floats(integer_function(lambda a, b, w: a + b), in_long_double(np.add))),
    "sub": (dt.NUMBERS, with_floats(integer_function(lambda a, b, w: a - b), in_long_double(np.subtract))),
    "mul": (dt.NUMBERS, with_floats(integer_function(lambda a, b, w: a * b), in_long_double(np.multiply))),
    "div": (dt.NUMBERS, with_floats(integer_function(truncated_div), in_long_double(np.divide))),
    "pow": (dt.NUMBERS, with_floats(integer_function(integer_pow), in_long_double(np.power))),
    "atan2": (dt.FLOATS, in_long_double(np.arctan2)),
}
EXACT_BINARY = {
    "rem": (dt.NUMBERS, with_floats(integer_function(integer_rem), keep_type(np.fmod))),
    "max": (dt.NUMBERS, keep_type(np.maximum)),
    "min": (dt.NUMBERS, keep_type(np.minimum)),
    "bitwise_and": (dt.BITS, np.bitwise_and),
    "bitwise_or": (dt.BITS, np.bitwise_or),
    "bitwise_xor": (dt.BITS, np.bitwise_xor),
    "shift_left": (dt.INTS, integer_function(shift_left)),
    "shift_right": (dt.INTS, integer_function(shift_right)),
    "shift_right_logical": (dt.INTS, integer_function(shift_right_logical)),
    "equal": (dt.ANY, compare(np.equal)),
    "not_equal": (dt.ANY, compare(np.not_equal)),
    "less": (dt.ANY, compare(np.less)),
    "less_equal": (dt.ANY, compare(np.less_equal)),
    "greater": (dt.ANY, compare(np.greater)),
    "greater_equal": (dt.ANY, compare(np.greater_equal)),
}
# Operands whose results are zeros of a certain sign.
SIGNED_ZERO_CASES = {
    "add": ([0.0, -0.0, 0.0, 1.0], [-0.0, -0.0, 0.0, -1.0], [0.0, -0.0, 0.0, 0.0]),
    "sub": ([0.0, -0.0, -0.0, 2.0], [0.0, 0.0, -0.0, 2.0], [0.0, -0.0, 0.0, 0.0]),
    "mul": ([0.0, -0.0, -0.0, 0.0], [-1.0, 1.0, -2.0, 2.0], [-0.0, -0.0, 0.0, 0.0]),
    "div": ([0.0, -0.0, -0.0, 0.0], [-1.0, 1.0, -2.0, 2.0], [-0.0, -0.0, 0.0, 0.0]),
    "atan2": ([0.0, -0.0], [1.0, 2.0], [0.0, -0.0]),
}


def binary_operands(row, name, i):
    yield dt.pairs(name)
    yield [dt.sample(row.rng, name, prime_shape(i)) for _ in "ab"]
    for shape in tiny_shapes(i):
        yield [dt.sample(row.rng, name, shape) for _ in "ab"]


def exact_binary(op):
    row, (names, function) = Row(op), EXACT_BINARY[op]
    for i, name in enumerate(names):
        for a, b in binary_operands(row, name, i):
            row.check(op, None, [a, b], Exact(function(a, b)))
    return row


def close_binary(op):
    row, (names, function) = Row(op), CLOSE_BINARY[op]
    for i, name in enumerate(names):
        for a, b in binary_operands(row, name, i):
            y = function(a, b)
            row.check(op, None, [a, b], Close(y, name) if name in dt.FLOATS else Exact(y))
        if name in dt.FLOATS and op in SIGNED_ZERO_CASES:
            a, b, y = (dt.round_to(values, name) for values in SIGNED_ZERO_CASES[op])
            row.check(op, None, [a, b], Exact(y))
    return row


ROWS = (
    dict.fromkeys(EXACT_UNARY, exact_unary)
    | dict.fromkeys(CLOSE_UNARY, close_unary)
    | dict.fromkeys(EXACT_BINARY, exact_binary)
    | dict.fromkeys(CLOSE_BINARY, close_binary)
)
