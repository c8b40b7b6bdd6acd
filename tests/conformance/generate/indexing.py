"""gather, by JAX on the positions of the elements, dynamic_slice and dynamic_update_slice."""

import jax
import jax.numpy as jnp
import numpy as np

from . import dtypes as dt
from .movement import positions
from .row import Exact, Row

# operand shape, indices, and the dimension numbers; slices is None where the operand's axis is taken whole.
GATHERS = [
    # Rows of a matrix; indices out of range are clamped.
    dict(
        x=(7, 3),
        indices=[[0], [6], [3], [3], [99], [-5]],
        offset=[1],
        collapsed=[0],
        map=[0],
        vector=1,
        sizes=[1, 3],
    ),
    # The same with scalar indices: the vector axis is one past the last.
    dict(x=(5, 3), indices=[4, 0, 2], offset=[1], collapsed=[0], map=[0], vector=1, sizes=[1, 3]),
    # Windows of two by two that are moved inside.
    dict(
        x=(5, 7),
        indices=[[0, 0], [4, 6], [2, 3], [-1, 5]],
        offset=[1, 2],
        collapsed=[],
        map=[0, 1],
        vector=1,
        sizes=[2, 2],
    ),
    # Index components in the other order, vectors along the first axis, offsets first.
    dict(
        x=(5, 7),
        indices=[[0, 6, 3], [4, 0, 9]],
        offset=[0],
        collapsed=[0],
        map=[1, 0],
        vector=0,
        sizes=[1, 3],
    ),
    # One axis batched.
    dict(
        x=(3, 5, 2),
        indices=[[0, 4], [1, 7], [2, 2]],
        offset=[2],
        collapsed=[1],
        batch=[0],
        index_batch=[0],
        map=[1],
        vector=2,
        sizes=[1, 1, 2],
    ),
    # Two axes batched, in the other order.
    dict(
        x=(2, 3, 7),
        indices=[[[6], [1]], [[0], [5]], [[3], [99]]],
        offset=[],
        collapsed=[2],
        batch=[0, 1],
        index_batch=[1, 0],
        map=[2],
        vector=2,
        sizes=[1, 1, 1],
    ),
    # A single window, no batch of indices.
    dict(x=(11,), indices=[9], offset=[0], collapsed=[], map=[0], vector=0, sizes=[5]),
    # Nothing to take, nothing to take from, and windows without elements.
    dict(x=(5, 3), indices=np.zeros((0, 1), int), offset=[1], collapsed=[0], map=[0], vector=1, sizes=[1, 3]),
    dict(x=(5, 0), indices=[[1], [2], [3]], offset=[1], collapsed=[0], map=[0], vector=1, sizes=[1, 0]),
    dict(x=(5, 3), indices=[[1], [9], [3]], offset=[1, 2], collapsed=[], map=[0], vector=1, sizes=[0, 3]),
    # A scalar out of a vector.
    dict(x=(7,), indices=[6], offset=[], collapsed=[0], map=[0], vector=0, sizes=[1]),
    # An index of a scalar operand has no components.
    dict(x=(), indices=np.zeros((3, 0), int), offset=[], collapsed=[], map=[], vector=1, sizes=[]),
    # Offsets between batch axes.
    dict(
        x=(3, 11),
        indices=[[[0], [2]], [[1], [1]], [[2], [0]]],
        offset=[1],
        collapsed=[0],
        map=[0],
        vector=2,
        sizes=[1, 11],
    ),
]


def jax_indices(indices, vector):
    """JAX wants the index vectors along the last axis."""
    indices = np.asarray(indices, np.int64)
    return indices[..., None] if vector == indices.ndim else np.moveaxis(indices, vector, -1)


def gathered(x, g):
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=tuple(g["offset"]),
        collapsed_slice_dims=tuple(g["collapsed"]),
        start_index_map=tuple(g["map"]),
        operand_batching_dims=tuple(g.get("batch", [])),
        # JAX numbers them without the vector axis, which is last.
        start_indices_batching_dims=tuple(g.get("index_batch", [])),
    )
    indices = jax_indices(g["indices"], g["vector"])
    if x.size == 0:
        return np.zeros(
            jax.eval_shape(
                lambda a, i: jax.lax.gather(a, i, numbers, g["sizes"], mode="clip"), x, indices
            ).shape,
            int,
        )
    return np.asarray(jax.lax.gather(jnp.asarray(x), indices, numbers, g["sizes"], mode="clip"))


def fit_indices(indices, name):
    """Indices in a type of theirs; what it cannot hold becomes its largest or 0."""
    info = np.iinfo(dt.NUMPY[name])
    return np.clip(np.asarray(indices), max(info.min, -(2**40)), min(info.max, 2**40)).astype(dt.NUMPY[name])


def without_empty(attrs):
    """Attributes that differ from their defaults."""
    return {key: value for key, value in attrs.items() if value != []}


def gather(op):
    row, number = Row(op), 0
    for i, name in enumerate(dt.ANY):
        for j in range(3):
            g = GATHERS[(3 * i + j) % len(GATHERS)]
            index_type = ["i32", "i64", "u8", "i8", "u32", "u64", "i16", "u16"][number % 8]
            number += 1
            x = dt.sample_bits(row.rng, name, g["x"])
            indices = fit_indices(g["indices"], index_type)
            y = x.ravel()[gathered(positions(g["x"]), {**g, "indices": indices})]
            attrs = {
                "offset_axes": g["offset"],
                "collapsed_axes": g["collapsed"],
                "operand_batch_axes": g.get("batch", []),
                "index_batch_axes": g.get("index_batch", []),
                "start_index_map": g["map"],
                "index_vector_axis": g["vector"],
            }
            row.check(op, {**without_empty(attrs), "slice_sizes": g["sizes"]}, [x, indices], Exact(y))
    # The far ends of the index types are clamped like any other index.
    ends = {"i64": [-(2**63), 2**63 - 1, 2], "u64": [0, 2**64 - 1, 2**63], "i32": [-(2**31), 2**31 - 1, 1]}
    for name, values in ends.items():
        x = np.arange(5, dtype=np.float32)
        y = x[[min(max(v, 0), 4) for v in values]]
        attrs = {"collapsed_axes": [0], "start_index_map": [0], "index_vector_axis": 1, "slice_sizes": [1]}
        row.check(op, attrs, [x, np.array(values, dt.NUMPY[name])], Exact(y))
    return row


# operand shape, block, starts
BLOCKS = [
    ((7,), (3,), [2]),
    ((7,), (3,), [6]),
    ((3, 5), (2, 3), [-4, 1]),
    ((3, 5), (3, 5), [1, 1]),
    ((2, 3, 11), (1, 2, 4), [1, 9, 7]),
    ((5, 3), (0, 2), [2, 1]),
    ((0, 3), (0, 3), [5, 5]),
    ((), (), []),
    ((67,), (33,), [17]),
]


def clamped_block(shape, block, starts):
    begins = [min(max(int(s), 0), size - b) for s, size, b in zip(starts, shape, block)]
    return tuple(slice(s, s + b) for s, b in zip(begins, block))


def block_cases(row):
    number = 0
    for i, name in enumerate(dt.ANY):
        for j in range(2):
            shape, block, starts = BLOCKS[(2 * i + j) % len(BLOCKS)]
            index_type = ["i32", "i64", "u8", "i8", "u32", "u64", "i16", "u16"][number % 8]
            number += 1
            begins = [fit_indices(s, index_type) for s in starts]
            yield dt.sample_bits(row.rng, name, shape), block, begins, clamped_block(shape, block, begins)


def dynamic_slice(op):
    row = Row(op)
    for x, block, starts, where in block_cases(row):
        row.check(op, {"sizes": block}, [x, *starts], Exact(np.array(x[where])))
    x = np.arange(7, dtype=np.int32)
    row.check(op, {"sizes": [3]}, [x, np.uint64(2**64 - 1)], Exact(x[4:]))
    row.check(op, {"sizes": [3]}, [x, np.int64(-(2**63))], Exact(x[:3]))
    return row


def dynamic_update_slice(op):
    row = Row(op)
    for x, block, starts, where in block_cases(row):
        update, y = dt.sample_bits(row.rng, dt.name_of(x), block), x.copy()
        y[where] = update
        row.check(op, None, [x, update, *starts], Exact(y))
    return row


ROWS = {
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
}
