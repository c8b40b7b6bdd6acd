"""select, clamp, convert and bitcast."""

import numpy as np

from . import dtypes as dt
from .row import Exact, Raw, Row

SHAPES = [(3, 5), (0, 3), (), (67,), (1, 7)]


def select(op):
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        for shape in [(11,), SHAPES[i % len(SHAPES)]]:
            p = row.rng.integers(0, 2, shape).astype(np.bool_)
            a, b = dt.sample_bits(row.rng, name, shape), dt.sample_bits(row.rng, name, shape)
            row.check(op, None, [p, a, b], Exact(np.where(p, a, b)))
        p = np.bool_(i % 2)
        a, b = dt.sample(row.rng, name, (3, 7)), dt.sample(row.rng, name, (3, 7))
        row.check(op, None, [p, a, b], Exact(a if p else b))
    return row


def clamped(low, x, high):
    """min(max(x, low), high), NaN when any is."""
    name = dt.name_of(x)
    if name not in dt.FLOATS:
        return np.minimum(np.maximum(x, low), high)
    low, x, high = dt.to_f64(low), dt.to_f64(x), dt.to_f64(high)
    return dt.round_to(np.minimum(np.maximum(x, low), high), name)


def clamp(op):
    row = Row(op)
    for i, name in enumerate(dt.NUMBERS):
        x = np.concatenate([dt.specials(name), dt.sample(row.rng, name, (5,))])
        low, high = dt.as_type([1, 5], name)
        row.check(op, None, [low, x, high], Exact(clamped(low, x, high)))
        shape = SHAPES[i % len(SHAPES)]
        low, x, high = (dt.sample(row.rng, name, shape) for _ in range(3))
        row.check(op, None, [low, x, high], Exact(clamped(low, x, high)))
        # low above high: the result is high. One bound of each form.
        x, low, high = dt.sample(row.rng, name, (3, 5)), dt.as_type(4, name), dt.sample(row.rng, name, (3, 5))
        row.check(op, None, [low, x, high], Exact(clamped(low, x, high)))
        if name in dt.FLOATS:
            low = dt.round_to([np.nan, -3, -3, -3, -3, 0.0, -np.inf], name)
            x = dt.round_to([1, 1, np.nan, -np.inf, np.inf, -0.0, 2], name)
            high = dt.round_to([3, np.nan, 3, 3, 3, 3, np.inf], name)
            row.check(op, None, [low, x, high], Exact(clamped(low, x, high)))
    return row


# What rounding twice gets wrong, per target: half a unit in the last place, and a little more.
DOUBLE_ROUNDING = {
    "f32": 1 + 2.0**-24 + 2.0**-50,
    "f16": 1 + 2.0**-11 + 2.0**-40,
    "bf16": 1 + 2.0**-8 + 2.0**-40,
    "f8e4m3fn": 1 + 2.0**-4 + 2.0**-40,
    "f8e5m2": 1 + 2.0**-3 + 2.0**-40,
}
FRACTIONS = [
    0.4,
    0.5,
    0.6,
    1.5,
    2.5,
    -0.4,
    -0.9,
    -1.5,
    99.99,
    126.5,
    127.9,
    128,
    254.9,
    255.9,
    256,
    -127.5,
    -128.9,
]
FRACTIONS += [
    -129,
    464,
    465,
    480,
    61439,
    61440,
    65519,
    65520,
    32767.9,
    65535.9,
    2.0**31 - 0.5,
    2.0**31,
    -(2.0**31) - 1,
]
FRACTIONS += [2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 2.0**-10, 2.0**-25, 2.0**-17, 3 * 2.0**-18]
LARGE_INTS = [
    16777217,
    16777219,
    -16777217,
    2**40 + 1,
    2**53 + 1,
    2**62 + 2**38 + 1,
    2**62 + 2**54 + 1,
    65519,
    65520,
    448,
]
LARGE_INTS += [464, 465, 57344, 61439, 61440, 257, 258, 259]


def source_values(row, name):
    values = [dt.specials(name), dt.sample(row.rng, name, (5,))]
    if name in dt.FLOATS:
        values.append(dt.round_to(FRACTIONS, name))
        if name == "f64":
            values.append(np.array(list(DOUBLE_ROUNDING.values()) + [-v for v in DOUBLE_ROUNDING.values()]))
    elif name != "bool":
        info = np.iinfo(dt.NUMPY[name])
        values.append(np.array([v for v in LARGE_INTS if info.min <= v <= info.max], dt.NUMPY[name]))
    return np.concatenate(values)


def integer_to_float(value, name):
    """Rounded once: values that f64 cannot hold are first made odd in a bit far below the target's last."""
    if abs(value) > 2**53 and name != "f64":
        shift = abs(value).bit_length() - 50
        sticky = 1 if abs(value) & ((1 << shift) - 1) else 0
        value = (abs(value) >> shift | sticky) * 2**shift * (1 if value > 0 else -1)
    return dt.round_to(np.float64(value), name)


def converted(x, to):
    source = dt.name_of(x)
    if to == source:
        return x
    if to == "bool":
        return dt.to_f64(x) != 0 if source in dt.FLOATS else x != 0
    if source in dt.FLOATS and to in dt.FLOATS:
        return dt.round_to(dt.to_f64(x), to)
    if source in dt.FLOATS:
        info = np.iinfo(dt.NUMPY[to])
        whole = [0 if np.isnan(v) else v for v in np.trunc(dt.to_f64(x)).ravel()]
        clipped = [int(min(max(v, -(2.0**70)), 2.0**70)) for v in whole]
        values = [min(max(v, info.min), info.max) for v in clipped]
        return np.array(values, dt.NUMPY[to]).reshape(x.shape)
    values = [int(v) for v in x.ravel()]
    if to in dt.FLOATS:
        return np.array([integer_to_float(v, to) for v in values], dt.NUMPY[to]).reshape(x.shape)
    return dt.wrap(np.array(values, dtype=object).reshape(x.shape), to)


def convert(op):
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        case = row.case()
        x = source_values(row, name)
        value = case.input("a", x)
        for to in dt.ANY:
            case.expect(op, [value], {"dtype": Raw(to)}, Exact(converted(x, to)))
        x = dt.sample(row.rng, name, SHAPES[i % len(SHAPES)])
        to = dt.ANY[(7 * i + 3) % len(dt.ANY)]
        row.check(op, {"dtype": Raw(to)}, [x], Exact(converted(x, to)))
    return row


def bitcast(op):
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        case = row.case()
        x = dt.sample_bits(row.rng, name, (3, 7))
        value = case.input("a", x)
        for to in dt.ANY:
            if dt.NUMPY[to].itemsize == x.dtype.itemsize and (to != "bool" or name == "bool"):
                case.expect(op, [value], {"dtype": Raw(to)}, Exact(x.view(dt.NUMPY[to])))
        x = dt.sample_bits(row.rng, name, SHAPES[i % len(SHAPES)])
        to = {1: "u8", 2: "u16", 4: "i32", 8: "u64"}[x.dtype.itemsize]
        row.check(op, {"dtype": Raw(to)}, [x], Exact(x.reshape(-1).view(dt.NUMPY[to]).reshape(x.shape)))
    return row


ROWS = {"select": select, "clamp": clamp, "convert": convert, "bitcast": bitcast}
