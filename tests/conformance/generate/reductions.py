"""reduce, arg_reduce, reduce_window, cumulative, sort and top_k.

Sums and products of floats are computed in long double; a sum's scale is the sum of magnitudes.
"""

import jax
import numpy as np

from . import dtypes as dt
from .row import Close, Exact, Raw, Row

NUMBER_KINDS = ["sum", "prod", "max", "min"]
BIT_KINDS = ["bitwise_and", "bitwise_or"]


def kinds_of(name):
    return (NUMBER_KINDS if name != "bool" else []) + (BIT_KINDS if name in dt.BITS else [])


def identity(kind, name):
    """What an empty reduction gives: for max the lowest value, an infinity where there is one."""
    if kind in ("sum", "prod"):
        return dt.as_type(int(kind == "prod"), name)
    if kind in BIT_KINDS:
        return (
            np.invert(np.zeros((), dt.NUMPY[name])) if kind == "bitwise_and" else np.zeros((), dt.NUMPY[name])
        )
    if name not in dt.FLOATS:
        info = np.iinfo(dt.NUMPY[name])
        return np.array(info.min if kind == "max" else info.max, dt.NUMPY[name])
    top = dt.largest(name) if name == "f8e4m3fn" else np.inf
    return dt.round_to(-top if kind == "max" else top, name)


def combined(xs, kind, name):
    """All of a list of elements: (value, scale), the scale None where the value is exact."""
    if len(xs) == 0:
        return identity(kind, name), None
    if name in dt.FLOATS:
        wide = np.asarray(xs).astype(np.longdouble)
        if kind == "sum":
            return np.float64(wide.sum()), float(np.abs(wide).sum())
        if kind == "prod":
            return np.float64(wide.prod()), float(np.abs(wide).prod())
        return (np.maximum if kind == "max" else np.minimum).reduce(dt.to_f64(xs)), None
    if name == "bool":
        return (np.all if kind == "bitwise_and" else np.any)(xs), None
    total = int(xs[0])
    for x in xs[1:]:
        x = int(x)
        total = {"sum": total + x, "prod": total * x, "max": max(total, x), "min": min(total, x)}.get(
            kind, total & x if kind == "bitwise_and" else total | x
        )
    return dt.wrap(total, name).item(), None


def gather_results(lists, shape, kind, name):
    """Results of many lists as one expected array of `shape`."""
    pairs = [combined(xs, kind, name) for xs in lists]
    if name in dt.FLOATS and kind in ("sum", "prod"):
        value = np.array([float(v) for v, _ in pairs], np.float64).reshape(shape)
        scale = np.array([0 if s is None else s for _, s in pairs], np.float64).reshape(shape)
        k = max([len(xs) for xs in lists], default=1)
        return Close(value, name, scale if kind == "sum" else None, max(k, 1))
    if name in dt.FLOATS:
        return Exact(dt.round_to(np.array([float(v) for v, _ in pairs]), name).reshape(shape))
    return Exact(np.array([v for v, _ in pairs], dt.NUMPY[name]).reshape(shape))


def reduced(x, kind, axes):
    kept = [a for a in range(x.ndim) if a not in axes]
    moved = x.transpose(kept + list(axes))
    shape = tuple(x.shape[a] for a in kept)
    rows = moved.reshape(int(np.prod(shape)), int(np.prod([x.shape[a] for a in axes])))
    return gather_results(list(rows), shape, kind, dt.name_of(x))


# Numbers whose products and sums stay small in every type.
def mild(rng, name, shape):
    if name in dt.FLOATS:
        return dt.round_to(rng.choice([-1.5, -1.25, -1, -0.75, 0.5, 0.75, 1, 1.25, 1.5], shape), name)
    return dt.sample(rng, name, shape)


REDUCTIONS = [
    ((3, 5), (1,)),
    ((7,), (0,)),
    ((2, 3, 11), (0, 2)),
    ((3, 0), (1,)),
    ((0, 3), (1,)),
    ((3, 5), ()),
    ((1,), (0,)),
    ((), ()),
    ((67,), (0,)),
    ((3, 5, 7), (1,)),
    ((5, 3), (1, 0)),
]


def every_kind(row, name, x):
    """One case that reduces the last axis of x in all ways."""
    case = row.case()
    value = case.input("a", x)
    for kind in kinds_of(name):
        case.expect("reduce", [value], {"kind": Raw(kind), "axes": [1]}, reduced(x, kind, [1]))


def reduce(op):
    row, number = Row(op), 0
    for name in dt.ANY:
        for kind in kinds_of(name):
            shape, axes = REDUCTIONS[number % len(REDUCTIONS)]
            number += 1
            x = mild(row.rng, name, shape)
            row.check(op, {"kind": Raw(kind), "axes": axes}, [x], reduced(x, kind, axes))
        every_kind(row, name, dt.sample(row.rng, name, (3, 0)))
        if name in dt.INTS:
            every_kind(row, name, np.resize(dt.specials(name), (5, 3)))
        if name in dt.FLOATS:
            # NaN and infinity, alone and with each other.
            x = [
                [np.nan, 1, 2],
                [1, np.nan, -np.inf],
                [np.inf, 1, 1],
                [-np.inf, 1, 1],
                [np.inf, -np.inf, 0],
                [1, 2, np.nan],
            ]
            every_kind(row, name, dt.round_to(x, name))
    # The partial sums overflow the operand's type, but not f32.
    for name, big in [("f16", 40000), ("f8e5m2", 40000), ("f8e4m3fn", 448)]:
        x = dt.round_to([big, big, 1, -big, -big], name)
        row.check(op, {"axes": [0]}, [x], reduced(x, "sum", [0]))
    return row


def ranks(x):
    """Each element's place among the distinct values; NaN above all, zeros equal."""
    values = dt.to_f64(x) if dt.name_of(x) in dt.FLOATS else x
    _, inverse = np.unique(values, return_inverse=True)
    return inverse.reshape(x.shape)


def with_ties(row, name, shape):
    """Values with repetitions and, for floats, NaNs, infinities and zeros of both signs."""
    pool = dt.sample(row.rng, name, (4,))
    if name in dt.FLOATS:
        pool = np.concatenate([pool, dt.round_to([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, 1], name)])
    elif name != "bool":
        info = np.iinfo(dt.NUMPY[name])
        pool = np.concatenate([pool, np.array([info.min, info.max], dt.NUMPY[name])])
    return row.rng.choice(pool, shape)


def arg_reduced(x, kind, axis, index):
    if dt.name_of(x) in dt.FLOATS:
        function = np.argmax if kind == "max" else np.argmin  # numpy: the first NaN wins
        return Exact(np.asarray(function(dt.to_f64(x), axis=axis)).astype(dt.NUMPY[index]))
    return Exact(
        np.asarray((np.argmax if kind == "max" else np.argmin)(x, axis=axis)).astype(dt.NUMPY[index])
    )


def arg_reduce(op):
    row = Row(op)
    shapes = [((7,), 0), ((3, 5), 1), ((0, 3), 1), ((2, 3, 11), 0), ((1,), 0), ((67,), 0), ((11, 5), 0)]
    for i, name in enumerate(dt.NUMBERS):
        for j, kind in enumerate(["max", "min", "max", "min"]):
            (shape, axis), index = shapes[(4 * i + j) % len(shapes)], ["i32", "i64"][(i + j // 2) % 2]
            x = with_ties(row, name, shape) if j < 2 else dt.sample(row.rng, name, shape)
            attrs = {"kind": Raw(kind), "axis": axis, "dtype": Raw(index)}
            row.check(op, attrs, [x], arg_reduced(x, kind, axis, index))
        zeros = (
            dt.as_type([[-0.0, 0.0, -1.0], [0.0, -0.0, 1.0]], name)
            if name in dt.FLOATS
            else np.zeros((2, 3), dt.NUMPY[name])
        )
        for kind in ["max", "min"]:
            row.check(op, {"kind": Raw(kind), "axis": 1}, [zeros], arg_reduced(zeros, kind, 1, "i32"))
    return row


# operand shape, window, strides, low, high, base dilation, window dilation; None: left to its default
WINDOWS = [
    ((7,), (3,), None, None, None, None, None),
    ((3, 5), (2, 2), (1, 2), (1, 0), (0, 1), None, None),
    ((7,), (2,), (2,), (1,), (1,), (2,), (3,)),
    ((0, 3), (1, 2), None, None, None, None, None),
    ((5, 7), (3, 3), (2, 2), (1, 1), (1, 1), None, (1, 2)),
    ((1,), (1,), None, None, None, None, None),
    ((67,), (5,), (3,), (2,), (2,), None, None),
    # A window that lies in the padding alone, and one larger than what there is.
    ((3,), (2,), (1,), (3,), (3,), None, None),
    ((3,), (5,), None, None, None, None, None),
    ((7,), (2,), None, (-1,), (-2,), None, None),
    ((2, 3, 5), (2, 1, 3), (1, 1, 2), None, None, None, None),
    ((), (), None, None, None, None, None),
    ((0,), (2,), None, (2,), (1,), None, None),
]


def windowed(x, kind, window, strides, low, high, base, dilation):
    name, rank = dt.name_of(x), x.ndim
    strides, base, dilation = (v or (1,) * rank for v in (strides, base, dilation))
    low, high = (v or (0,) * rank for v in (low, high))
    counts = []
    for a in range(rank):
        padded = (x.shape[a] - 1) * base[a] + 1 if x.shape[a] else 0
        padded += low[a] + high[a]
        extent = (window[a] - 1) * dilation[a] + 1
        counts.append((padded - extent) // strides[a] + 1 if padded >= extent else 0)
    lists = []
    for at in np.ndindex(*counts):
        elements = []
        for offset in np.ndindex(*window):
            place = [at[a] * strides[a] + offset[a] * dilation[a] - low[a] for a in range(rank)]
            on_element = all(p % b == 0 and 0 <= p // b < n for p, b, n in zip(place, base, x.shape))
            if on_element:
                elements.append(x[tuple(p // b for p, b in zip(place, base))])
        lists.append(np.array(elements, x.dtype))
    result = gather_results(lists, counts, kind, name)
    if isinstance(result, Close) and name == "f64" and x.size and result.value.size:
        check_window_against_jax(x, kind, window, strides, low, high, base, dilation, result.value)
    return result


def check_window_against_jax(x, kind, window, strides, low, high, base, dilation, expected):
    function = {"sum": jax.lax.add, "prod": jax.lax.mul}[kind]
    start = {"sum": 0.0, "prod": 1.0}[kind]
    got = jax.lax.reduce_window(x, start, function, window, strides, list(zip(low, high)), base, dilation)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-13, atol=1e-13)


def window_attributes(kind, window, strides, low, high, base, dilation):
    named = {
        "strides": strides,
        "pad_low": low,
        "pad_high": high,
        "base_dilation": base,
        "window_dilation": dilation,
    }
    return {"kind": Raw(kind), "window": window} | {
        key: value for key, value in named.items() if value is not None
    }


def reduce_window(op):
    row, number = Row(op), 0
    for name in dt.NUMBERS:
        for kind in NUMBER_KINDS:
            for _ in range(3 if name in ("f64", "f32") else 1):
                shape, *window = WINDOWS[number % len(WINDOWS)]
                number += 1
                x = mild(row.rng, name, shape)
                row.check(op, window_attributes(kind, *window), [x], windowed(x, kind, *window))
    x = np.array([1, np.nan, 2, np.inf, -np.inf, 3, 4], np.float32)
    for kind in NUMBER_KINDS:
        row.check(op, window_attributes(kind, *WINDOWS[0][1:]), [x], windowed(x, kind, *WINDOWS[0][1:]))
    return row


def cumulated(x, kind, axis, reverse):
    """One list per element: those before it along the axis, and itself."""
    name = dt.name_of(x)
    forward = np.flip(x, axis) if reverse else x
    lists = []
    for at in np.ndindex(*x.shape):
        lists.append(forward[at[:axis] + (slice(0, at[axis] + 1),) + at[axis + 1 :]])
    result = gather_results(lists, x.shape, kind, name)
    result.value = np.flip(result.value, axis) if reverse else result.value
    if isinstance(result, Close) and result.scale is not None:
        result.scale = np.flip(result.scale, axis) if reverse else result.scale
    return result


def cumulative(op):
    row, number = Row(op), 0
    shapes = [
        ((7,), 0),
        ((3, 5), 1),
        ((5, 3), 0),
        ((0, 3), 0),
        ((3, 0), 0),
        ((1,), 0),
        ((2, 3, 11), 2),
        ((67,), 0),
    ]
    for name in dt.NUMBERS:
        for kind in NUMBER_KINDS:
            for _ in range(2 if name in ("f64", "f32", "i32") else 1):
                shape, axis = shapes[number % len(shapes)]
                reverse = number % 3 == 1
                number += 1
                x = mild(row.rng, name, shape)
                row.check(
                    op,
                    {"kind": Raw(kind), "axis": axis, "reverse": reverse},
                    [x],
                    cumulated(x, kind, axis, reverse),
                )
    for name in dt.FLOATS:
        x, case = dt.round_to([1, 2, np.nan, 3, 4], name), row.case()
        value = case.input("a", x)
        for kind in NUMBER_KINDS:
            for reverse in [False, True]:
                attrs = {"kind": Raw(kind), "axis": 0, "reverse": reverse}
                case.expect(op, [value], attrs, cumulated(x, kind, 0, reverse))
    return row


def order(x, axis, descending):
    rank = ranks(x)
    return np.argsort(-rank if descending else rank, axis=axis, kind="stable")


def sort(op):
    row = Row(op)
    shapes = [
        ((7,), 0),
        ((3, 5), 1),
        ((11, 3), 0),
        ((0, 3), 0),
        ((3, 0), 0),
        ((1,), 0),
        ((2, 3, 11), 2),
        ((67,), 0),
    ]
    for i, name in enumerate(dt.ANY):
        for j in range(4):
            (shape, axis), descending = shapes[(4 * i + j) % len(shapes)], j % 2 == 1
            x = with_ties(row, name, shape)
            # Every second case carries positions along, which show stability, and one more array.
            others = []
            if j >= 2:
                others = [
                    np.arange(x.size, dtype=np.int32).reshape(shape),
                    dt.sample(row.rng, dt.ANY[(i + 5) % 15], shape),
                ]
            place = order(x, axis, descending)
            results = [Exact(np.take_along_axis(a, place, axis)) for a in [x, *others]]
            row.check(op, {"axis": axis, "descending": descending}, [x, *others], *results)
    return row


def top_k(op):
    row = Row(op)
    shapes = [
        ((7,), 3),
        ((3, 5), 5),
        ((3, 11), 1),
        ((0, 3), 2),
        ((3, 5), 0),
        ((1,), 1),
        ((67,), 10),
        ((2, 3, 7), 2),
    ]
    for i, name in enumerate(dt.NUMBERS):
        for j in range(3):
            shape, k = shapes[(3 * i + j) % len(shapes)]
            x = with_ties(row, name, shape)
            place = order(x, -1, True)[..., :k]
            row.check(
                op, {"k": k}, [x], Exact(np.take_along_axis(x, place, -1)), Exact(place.astype(np.int32))
            )
    return row


ROWS = {
    "reduce": reduce,
    "arg_reduce": arg_reduce,
    "reduce_window": reduce_window,
    "cumulative": cumulative,
    "sort": sort,
    "top_k": top_k,
}
