"""Element types of the graph IR in numpy: names, rounding from f64, and the values that cases are made of.

ml_dtypes rounds some f64 values twice (through f32), so small floats are rounded here, once, to nearest even.
"""

import ml_dtypes
import numpy as np

NUMPY = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8),
    "u64": np.dtype(np.uint64),
    "u32": np.dtype(np.uint32),
    "u16": np.dtype(np.uint16),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
NAMES = {dtype: name for name, dtype in NUMPY.items()}

FLOATS = ["f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2"]
SIGNED_INTS = ["i64", "i32", "i16", "i8"]
UNSIGNED_INTS = ["u64", "u32", "u16", "u8"]
INTS = SIGNED_INTS + UNSIGNED_INTS
SIGNED = FLOATS + SIGNED_INTS
NUMBERS = FLOATS + INTS
BITS = INTS + ["bool"]
ANY = NUMBERS + ["bool"]

PRIME_SHAPES = [(7,), (3, 5), (67,), (3, 1, 11), (5, 13), (2, 3, 11)]
TINY_SHAPES = [(), (0,), (1,), (3, 0, 2), (1, 1), (0, 5)]


def name_of(array):
    return NAMES[array.dtype]


def width_of(name):
    return 8 * NUMPY[name].itemsize


def to_f64(array):
    return np.asarray(array).astype(np.float64)


def largest(name):
    return float(ml_dtypes.finfo(NUMPY[name]).max)


def round_to(values, name):
    """f64 values rounded once to a float type; overflow is infinite, or NaN where there is no infinity."""
    values = np.asarray(values, np.float64)
    if name in ("f64", "f32"):
        with np.errstate(over="ignore"):
            return values.astype(NUMPY[name])
    info = ml_dtypes.finfo(NUMPY[name])
    finite = np.isfinite(values)
    x = np.where(finite, values, 0)
    exponent = np.maximum(np.frexp(x)[1] - 1, int(info.minexp))
    quantum = np.ldexp(1.0, exponent - int(info.nmant))
    rounded = np.copysign(np.rint(x / quantum) * quantum, values)
    overflow = np.nan if name == "f8e4m3fn" else np.inf
    too_large = (np.abs(rounded) > float(info.max)) | np.isinf(values)
    rounded = np.where(too_large, np.copysign(overflow, values), rounded)
    return np.where(np.isnan(values), np.nan, rounded).astype(NUMPY[name])


def wrap(values, name):
    """Python or numpy integers, reduced to the width of an integer type."""
    width, flat = width_of(name), np.asarray(values, dtype=object)
    mask = (1 << width) - 1
    unsigned = np.array([int(v) & mask for v in flat.ravel()], dtype=np.uint64)
    return unsigned.astype(f"u{width // 8}").view(NUMPY[name]).reshape(flat.shape)


def as_type(values, name):
    """Numbers that the type is known to represent, or to round to in a way the case does not depend on."""
    if name in FLOATS:
        return round_to(values, name)
    return np.asarray(values).astype(NUMPY[name])


def sample(rng, name, shape, spread=2.0):
    """Ordinary values: normals for floats, small numbers for integers."""
    if name == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if name in FLOATS:
        return round_to(rng.normal(0, spread, shape), name)
    if name in UNSIGNED_INTS:
        return rng.integers(0, 10, shape).astype(NUMPY[name])
    return rng.integers(-9, 10, shape).astype(NUMPY[name])


def sample_bits(rng, name, shape):
    """Any bit pattern the type has: NaNs, infinities, denormals, large integers."""
    if name == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    size = NUMPY[name].itemsize
    raw = rng.integers(0, 256, (*shape, size), dtype=np.uint8)
    return np.ascontiguousarray(raw).view(NUMPY[name]).reshape(shape)


def specials(name):
    """Values at which kernels go wrong."""
    if name == "bool":
        return np.array([False, True, True, False, True, False, False])
    if name in FLOATS:
        info = ml_dtypes.finfo(NUMPY[name])
        top, tiny = float(info.max), float(info.smallest_normal)
        denormal, eps = float(info.smallest_subnormal), float(info.eps)
        values = [
            0.0,
            -0.0,
            1,
            -1,
            0.5,
            -0.5,
            1.5,
            -1.5,
            2.5,
            -2.5,
            3.5,
            0.375,
            -0.625,
            np.pi,
            -np.pi / 2,
            10,
            -10,
        ]
        values += [
            top,
            -top,
            tiny,
            -tiny,
            denormal,
            -denormal,
            tiny - denormal,
            1 + eps,
            -1 - eps,
            1 - eps / 2,
        ]
        return round_to(np.array(values + [np.inf, -np.inf, np.nan, 100, -100, 1e-3, -1e-3]), name)
    info = np.iinfo(NUMPY[name])
    values = [info.min, info.min + 1, 0, 1, 2, 3, 7, 100, info.max // 2, info.max - 1, info.max]
    if name in SIGNED_INTS:
        values += [-1, -2, -3, -100]
    return np.array(values, dtype=NUMPY[name])


def eleven(name):
    """Eleven special values, so that all pairs of them are an 11 by 11 array."""
    if name == "bool":
        return np.arange(11) % 2 == 1
    if name in FLOATS:
        info = ml_dtypes.finfo(NUMPY[name])
        small = float(info.smallest_subnormal)
        values = [0.0, -0.0, 1, -1.5, 2.5, 3, np.inf, -np.inf, np.nan, float(info.max), 3 * small]
        return round_to(np.array(values), name)
    info, width = np.iinfo(NUMPY[name]), width_of(name)
    if name in SIGNED_INTS:
        values = [info.min, -7, -1, 0, 1, 2, 3, 7, width, info.max - 1, info.max]
    else:
        values = [0, 1, 2, 3, 5, 7, width - 1, width, info.max // 2 + 1, info.max - 1, info.max]
    return np.array(values, dtype=NUMPY[name])


def pairs(name):
    """All pairs of eleven(name), as two arrays [11,11]."""
    values = eleven(name)
    return np.repeat(values, 11).reshape(11, 11), np.tile(values, 11).reshape(11, 11)
