"""dot_general, convolution, cholesky and triangular_solve.

The error of a contraction is measured against the sum of the products' magnitudes; K is their number.
"""

import jax
import numpy as np
import scipy.linalg

from . import dtypes as dt
from .row import Close, Exact, Raw, Row, close_or_exact

# a, b, batch axes of each, contracting axes of each
DOTS = [
    ((3, 5), (5, 7), [], [], [1], [0]),
    ((7,), (7,), [], [], [0], [0]),
    ((2, 3, 5), (2, 5, 11), [0], [0], [2], [1]),
    ((0, 5), (5, 3), [], [], [1], [0]),
    ((3, 0), (0, 5), [], [], [1], [0]),
    ((3, 5, 2), (2, 7, 5), [], [], [1, 2], [2, 0]),
    ((), (), [], [], [], []),
    ((3,), (5,), [], [], [], []),
    ((1, 67), (67, 1), [], [], [1], [0]),
    ((3, 2, 5), (2, 7, 3), [0, 1], [2, 0], [], []),
    ((5, 3), (7, 5), [], [], [0], [1]),
    ((3, 2, 2, 5), (2, 5, 3, 2), [2, 0], [0, 2], [3], [1]),
    ((7, 3), (3,), [], [], [1], [0]),
    ((7, 23), (23, 11), [], [], [1], [0]),
]
# operand dtypes and results wider than they
MIXED = [
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f32", "f32", "f64"),
    ("f8e4m3fn", "f8e4m3fn", "f32"),
    ("f8e5m2", "f8e5m2", "bf16"),
    ("f8e4m3fn", "f8e5m2", "f16"),
    ("i8", "i8", "i32"),
    ("u8", "i8", "i32"),
    ("u8", "u8", "u32"),
    ("i16", "i16", "i64"),
    ("i32", "i32", "i64"),
]


def einsum_text(a, b, a_batch, b_batch, a_contract, b_contract):
    letters = iter("abcdefghijklmnop")
    left, right = [""] * len(a), [""] * len(b)
    for x, y in list(zip(a_batch, b_batch)) + list(zip(a_contract, b_contract)):
        left[x] = right[y] = next(letters)
    batch = [left[x] for x in a_batch]
    left_free = [i for i in range(len(a)) if not left[i]]
    right_free = [i for i in range(len(b)) if not right[i]]
    for i in left_free:
        left[i] = next(letters)
    for i in right_free:
        right[i] = next(letters)
    result = "".join(batch + [left[i] for i in left_free] + [right[i] for i in right_free])
    return f"{''.join(left)},{''.join(right)}->{result}"


def dotted(a, b, numbers, result):
    text = einsum_text(a.shape, b.shape, *numbers)
    k = int(np.prod([a.shape[i] for i in numbers[2]]))
    if result in dt.FLOATS:
        wide = [dt.to_f64(v).astype(np.longdouble) for v in (a, b)]
        value = np.einsum(text, *wide).astype(np.float64)
        scale = np.einsum(text, *(np.abs(v) for v in wide)).astype(np.float64)
        return Close(value, result, scale, max(k, 1))
    # 64-bit arithmetic wraps, and so does what is kept of it.
    wide = [
        v.astype(np.int64).view(np.uint64) if v.dtype.kind == "i" else v.astype(np.uint64) for v in (a, b)
    ]
    return Exact(dt.wrap(np.einsum(text, *wide), result))


def dot_attributes(numbers, result):
    return dict(zip(["a_batch", "b_batch", "a_contract", "b_contract"], numbers)) | {"dtype": Raw(result)}


def dot_general(op):
    row, number = Row(op), 0
    trials = [(name, name, name, 4 if name in ("f32", "f64") else 3) for name in dt.NUMBERS]
    trials += [(*mix, 2) for mix in MIXED]
    for a_type, b_type, result, count in trials:
        for _ in range(count):
            a_shape, b_shape, *numbers = DOTS[number % len(DOTS)]
            number += 1
            draw = dt.sample if a_type in dt.FLOATS else dt.sample_bits
            a, b = draw(row.rng, a_type, a_shape), draw(row.rng, b_type, b_shape)
            row.check(op, dot_attributes(numbers, result), [a, b], dotted(a, b, numbers, result))
    # Partial sums beyond the operands' range, and values that are not finite.
    vector = [[], [], [0], [0]]
    for name, big in [("f16", 60000), ("f8e5m2", 50000), ("f8e4m3fn", 448)]:
        a, b = dt.round_to([big, big, -big, 1, -big], name), dt.round_to([0.5, 0.5, 0.5, 2, 0.5], name)
        row.check(op, dot_attributes(vector, name), [a, b], dotted(a, b, vector, name))
    a = np.array([[np.inf, 1], [np.nan, 0], [np.inf, -np.inf], [0, 2]], np.float32)
    b = np.array([[1, 0, -1], [1, 1, np.inf]], np.float32)
    row.check(op, dot_attributes(DOTS[0][2:], "f32"), [a, b], dotted(a, b, DOTS[0][2:], "f32"))
    return row


CONVOLUTIONS = [
    dict(layout="b01f_01io->b01f", x=(1, 5, 7, 3), w=(3, 3, 3, 5)),
    dict(
        layout="bf01_oi01->bf01",
        x=(2, 3, 5, 5),
        w=(5, 3, 3, 3),
        strides=[2, 2],
        pad_low=[1, 1],
        pad_high=[1, 1],
    ),
    dict(layout="b0f_0io->b0f", x=(1, 11, 3), w=(3, 3, 5), kernel_dilation=[2], pad_low=[2], pad_high=[1]),
    dict(
        layout="b012f_012io->b012f",
        x=(1, 3, 5, 4, 2),
        w=(2, 3, 2, 2, 3),
        pad_low=[0, 1, 0],
        pad_high=[1, 1, 0],
        strides=[1, 2, 1],
    ),
    dict(layout="b01f_01io->b01f", x=(1, 5, 5, 6), w=(3, 3, 2, 9), feature_groups=3),
    dict(
        layout="b01f_01io->b01f",
        x=(1, 5, 5, 3),
        w=(3, 3, 1, 3),
        feature_groups=3,
        pad_low=[1, 1],
        pad_high=[1, 1],
    ),
    dict(layout="b01f_01io->b01f", x=(1, 5, 5, 3), w=(2, 2, 1, 6), feature_groups=3),
    dict(layout="b0f_0io->b0f", x=(6, 7, 2), w=(3, 2, 3), batch_groups=3),
    dict(layout="b0f_0io->b0f", x=(1, 7, 3), w=(3, 3, 1), pad_low=[-1], pad_high=[-2]),
    dict(
        layout="b01f_01io->b01f",
        x=(1, 3, 5, 1),
        w=(3, 2, 1, 2),
        reverse=[1, 0],
        pad_low=[1, 0],
        pad_high=[1, 0],
    ),
    dict(
        layout="b01f_01io->b01f",
        x=(1, 3, 3, 2),
        w=(3, 3, 2, 3),
        operand_dilation=[2, 3],
        pad_low=[2, 2],
        pad_high=[2, 2],
    ),
    dict(
        layout="01bf_o01i->f01b",
        x=(5, 4, 1, 3),
        w=(2, 3, 3, 3),
        reverse=[1, 1],
        strides=[1, 2],
        kernel_dilation=[1, 2],
        pad_low=[0, 3],
        pad_high=[1, 3],
    ),
    dict(layout="bf_io->bf", x=(3, 5), w=(5, 7)),
    dict(layout="b0f_0io->b0f", x=(0, 7, 3), w=(3, 3, 5)),
    dict(layout="b0f_0io->b0f", x=(3, 7, 0), w=(3, 0, 5)),
    dict(layout="b0f_0io->b0f", x=(1, 2, 3), w=(5, 3, 1)),
    dict(layout="b0f_0io->b0f", x=(1, 1, 1), w=(1, 1, 1)),
    dict(
        layout="b0f_0io->b0f",
        x=(1, 7, 1),
        w=(3, 1, 1),
        operand_dilation=[2],
        kernel_dilation=[3],
        pad_low=[-3],
        pad_high=[4],
        strides=[2],
    ),
    dict(layout="b0f_0io->b0f", x=(1, 67, 3), w=(5, 3, 7), pad_low=[4], pad_high=[0]),
]
SPATIAL_DEFAULTS = {
    "strides": 1,
    "pad_low": 0,
    "pad_high": 0,
    "operand_dilation": 1,
    "kernel_dilation": 1,
    "reverse": 0,
}


def layout_axes(layout):
    """JAX's dimension numbers: batch, feature, spatial of operand and result, output, input, spatial of kernel."""
    operand, rest = layout.split("_")
    kernel, result = rest.split("->")
    digits = [str(i) for i in range(len(operand) - 2)]

    def axes(text, first, second):
        return (text.index(first), text.index(second), *(text.index(d) for d in digits))

    return axes(operand, "b", "f"), axes(kernel, "o", "i"), axes(result, "b", "f")


def spatial(c, key):
    return c.get(key) or [SPATIAL_DEFAULTS[key]] * (len(c["x"]) - 2)


def traced_convolution(x, w, c):
    """The convolution by JAX, for its transformations."""
    numbers = jax.lax.ConvDimensionNumbers(*layout_axes(c["layout"]))
    flipped = [axis for axis, flip in zip(numbers.rhs_spec[2:], spatial(c, "reverse")) if flip]
    return jax.lax.conv_general_dilated(
        x,
        jax.lax.rev(w, flipped),
        spatial(c, "strides"),
        list(zip(spatial(c, "pad_low"), spatial(c, "pad_high"))),
        spatial(c, "operand_dilation"),
        spatial(c, "kernel_dilation"),
        numbers,
        c.get("feature_groups", 1),
        c.get("batch_groups", 1),
        precision="highest",
    )


def convolved(x, w, c):
    """The convolution of f64 arrays."""
    shape = jax.eval_shape(lambda x, w: traced_convolution(x, w, c), x, w).shape
    return np.zeros(shape) if x.size == 0 or w.size == 0 else np.asarray(traced_convolution(x, w, c))


def kernel_terms(c):
    """How many products one element of the result sums."""
    output_axis = layout_axes(c["layout"])[1][0]
    return max(int(np.prod([n for a, n in enumerate(c["w"]) if a != output_axis])), 1)


def convolution_attributes(c, result):
    keys = ["layout", *SPATIAL_DEFAULTS, "feature_groups", "batch_groups"]
    return {key: c[key] for key in keys if key in c} | {"dtype": Raw(result)}


def convolution(op):
    row, number = Row(op), 0
    trials = [(name, name, name, 4 if name in ("f32", "f64", "bf16") else 3) for name in dt.NUMBERS]
    trials += [(*mix, 1) for mix in MIXED]
    for x_type, w_type, result, count in trials:
        for _ in range(count):
            c = CONVOLUTIONS[number % len(CONVOLUTIONS)]
            number += 1
            draw = dt.sample_bits if x_type in ("i8", "u8") else dt.sample
            x, w = draw(row.rng, x_type, c["x"]), draw(row.rng, w_type, c["w"])
            wide = dt.to_f64(x), dt.to_f64(w)
            value, scale = convolved(*wide, c), convolved(*(np.abs(v) for v in wide), c)
            if result not in dt.FLOATS:
                value = np.array([int(v) for v in value.ravel()], dtype=object).reshape(value.shape)
            expected = close_or_exact(value, result, scale, kernel_terms(c))
            row.check(op, convolution_attributes(c, result), [x, w], expected)
    return row


def positive_definite(row, shape):
    """Well conditioned, and representable in every float type."""
    n = shape[-1]
    off = row.rng.choice([-0.5, -0.25, 0, 0.25, 0.5], shape)
    lower = np.tril(off, -1)
    diagonal = row.rng.choice([3.0, 3.5, 4.0, 5.0], shape[:-1])
    return lower + np.swapaxes(lower, -1, -2) + diagonal[..., None] * np.eye(n)


def cholesky(op):
    row = Row(op)
    shapes = [(3, 3), (0, 0), (1, 1), (3, 5, 5), (7, 7), (3, 0, 0), (0, 3, 3), (2, 1, 3, 3), (11, 11)]

    def check(a, name, lower, value):
        # The triangle that must not be read holds NaN.
        keep = np.tril(np.ones(a.shape[-2:], bool)) if lower else np.triu(np.ones(a.shape[-2:], bool))
        a = dt.round_to(np.where(keep, a, np.nan), name)
        scale = np.nanmax(np.abs(value)) if np.isfinite(value).any() else None
        row.check(op, {"lower": lower}, [a], Close(value, name, scale, max(a.shape[-1], 1)))

    for i, name in enumerate(dt.FLOATS):
        for j in range(4):
            a, lower = positive_definite(row, shapes[(4 * i + j) % len(shapes)]), j % 2 == 0
            factor = np.linalg.cholesky(a) if a.size else a
            check(a, name, lower, factor if lower else np.swapaxes(factor, -1, -2))
        # The second of three is not positive definite; neither is zero, nor NaN.
        a = positive_definite(row, (3, 3, 3))
        factor = np.linalg.cholesky(a)
        a[1, 2, 2], factor[1] = -1, np.nan
        check(a, name, True, factor)
        check(np.zeros((1, 1)), name, True, np.full((1, 1), np.nan))
        check(np.full((3, 3), np.nan), name, False, np.full((3, 3), np.nan))
    return row


def triangular_solve(op):
    row, number = Row(op), 0
    # a, columns of x (rows when a stands on the right)
    shapes = [
        ((3, 3), 5),
        ((1, 1), 1),
        ((0, 0), 3),
        ((3, 3), 0),
        ((2, 5, 5), 3),
        ((7, 7), 1),
        ((0, 3, 3), 2),
        ((3, 1, 3, 3), 1),
        ((11, 11), 3),
    ]
    for name in dt.FLOATS:
        for _ in range(8):
            shape, columns = shapes[number % len(shapes)]
            left_side, lower, unit, transpose = (
                number % 2 == 0,
                number // 2 % 2 == 0,
                number // 4 % 2 == 1,
                number // 3 % 2 == 1,
            )
            number += 1
            n = shape[-1]
            triangle = np.tril(np.ones((n, n), bool)) if lower else np.triu(np.ones((n, n), bool))
            full = positive_definite(row, shape)
            # What must not be read holds NaN: the other triangle, and a diagonal known to be 1.
            hidden = ~triangle | (np.eye(n, dtype=bool) & unit)
            a = dt.round_to(np.where(hidden, np.nan, full), name)
            matrix = np.where(triangle, full, 0)
            matrix = np.where(np.eye(n, dtype=bool), 1, matrix) if unit else matrix
            matrix = np.swapaxes(matrix, -1, -2) if transpose else matrix
            b_shape = (*shape[:-1], columns) if left_side else (*shape[:-2], columns, n)
            b = dt.sample(row.rng, name, b_shape)
            wide, value, scale = dt.to_f64(b), np.zeros(b_shape), np.zeros(b_shape)
            for at in np.ndindex(*shape[:-2]):
                if wide[at].size:
                    inverse = scipy.linalg.inv(matrix[at])
                    value[at] = inverse @ wide[at] if left_side else wide[at] @ inverse
                    magnitude, amount = np.abs(inverse), np.abs(wide[at])
                    scale[at] = magnitude @ amount if left_side else amount @ magnitude
            attrs = {"left_side": left_side, "lower": lower, "unit_diagonal": unit, "transpose_a": transpose}
            row.check(op, attrs, [a, b], Close(value, name, scale, max(n, 1)))
        a, b = dt.round_to([[0.0]], name), dt.round_to([[1.0, -2.0, 0.0]], name)
        row.check(op, None, [a, b], Close(np.array([[np.inf, -np.inf, np.nan]]), name))
    return row


ROWS = {
    "dot_general": dot_general,
    "convolution": convolution,
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
}
