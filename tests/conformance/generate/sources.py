"""constant, iota, dimension and random_bits."""

import numpy as np

from . import dtypes as dt
from .row import Exact, Raw, Row, type_text


def number_text(value, name):
    if name == "bool":
        return "true" if value else "false"
    if name not in dt.FLOATS:
        return str(int(value))
    value = float(value)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def constant(op):
    row = Row(op)

    def check(text, y):
        row.check(op, {"value": Raw(type_text(dt.name_of(y), y.shape) + text)}, [], Exact(y))

    for i, name in enumerate(dt.ANY):
        y = dt.specials(name)
        check("(" + ", ".join(number_text(v, name) for v in y) + ")", y)
        y = dt.sample_bits(row.rng, name, [(3, 5), (7,), (1,), ()][i % 4])
        check(f'(hex "{y.tobytes().hex()}")', y)
        y = dt.sample(row.rng, name, (3, 7) if i % 3 else (0, 3))
        check("(" + ", ".join(number_text(v, name) for v in y.ravel()) + ")", y)
        y = np.full((5, 13), dt.sample(row.rng, name, (1,))[0])
        check(f"(splat {number_text(y[0, 0], name)})", y)
    return row


def iota(op):
    row = Row(op)
    shapes = [((7,), 0), ((3, 5), 1), ((0, 3), 0), ((2, 3, 11), 1), ((1,), 0), ((3, 0, 2), 2)]
    for i, name in enumerate(dt.NUMBERS):
        # 300 indices wrap in 8 bits and round in the small floats.
        for shape, axis in [((300,), 0), shapes[i % len(shapes)]]:
            index = np.broadcast_to(
                np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape
            )
            y = dt.round_to(index, name) if name in dt.FLOATS else dt.wrap(index, name)
            row.check(op, {"dtype": Raw(name), "shape": shape, "axis": axis}, [], Exact(y))
    return row


def dimension(op):
    """Sizes of arguments that the graph knows by a symbol only, and a size that is a number."""
    row = Row(op)
    sizes = [7, 0, 67, 1, 300]
    for i, name in enumerate(dt.NUMBERS):
        case, symbol, size = row.case(), f"n{i}", sizes[i % len(sizes)]
        case.input("a", np.zeros((3, size), np.bool_), (3, symbol))
        for text, value in [(symbol, size), (f"2*{symbol}+1", 2 * size + 1), ("11", 11)]:
            y = dt.round_to(value, name) if name in dt.FLOATS else dt.wrap(value, name)
            case.expect(op, [], {"dim": Raw(text), "dtype": Raw(name)}, Exact(y))
    return row


def philox_4x32_10(counter, key):
    """Ten rounds of Philox on a counter of four words with a key of two."""
    c, k = [int(v) for v in counter], [int(v) for v in key]
    for _ in range(10):
        low_product, high_product = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (high_product >> 32) ^ c[1] ^ k[0],
            high_product & 0xFFFFFFFF,
            (low_product >> 32) ^ c[3] ^ k[1],
            low_product & 0xFFFFFFFF,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


# The published known answer of the generator.
assert philox_4x32_10([0, 0, 0, 0], [0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox_4x32_10([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def random_words(key, count):
    words = [w for block in range((count + 3) // 4) for w in philox_4x32_10([block, 0, 0, 0], key)]
    return words[:count]


def random_bits(op):
    row = Row(op)
    keys = [[0, 0], [0xFFFFFFFF, 0xFFFFFFFF], [42, 7], [0x12345678, 0x9ABCDEF0]]
    shapes = [(67,), (3, 5), (), (0, 3), (1,), (2, 3, 11)]
    for i, name in enumerate(dt.UNSIGNED_INTS):
        for j, shape in enumerate(shapes):
            key, count = keys[(i + j) % len(keys)], int(np.prod(shape))
            if name == "u64":
                words = random_words(key, 2 * count)
                values = [words[2 * n] | words[2 * n + 1] << 32 for n in range(count)]
            else:
                values = random_words(key, count)
            y = dt.wrap(np.array(values, dtype=object).reshape(shape), name)
            row.check(op, {"dtype": Raw(name), "shape": shape}, [np.array(key, np.uint32)], Exact(y))
    return row


ROWS = {"constant": constant, "iota": iota, "dimension": dimension, "random_bits": random_bits}
