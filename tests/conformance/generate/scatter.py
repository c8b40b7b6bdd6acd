"""scatter, written out here, since the order of duplicates is fixed and every dtype and combination is
wanted. In f64 it is compared with JAX.
"""

import jax
import numpy as np

from . import dtypes as dt
from .indexing import jax_indices, without_empty
from .row import Close, Exact, Raw, Row

# operand shape, indices, updates shape and the dimension numbers.
SCATTERS = [
    dict(
        x=(7, 3),
        indices=[[0], [6], [3], [3], [99], [-5]],
        updates=(6, 3),
        window=[1],
        inserted=[0],
        map=[0],
        vector=1,
    ),
    dict(x=(5,), indices=[4, 0, 4, 4], updates=(4,), window=[], inserted=[0], map=[0], vector=1),
    dict(
        x=(5, 7),
        indices=[[0, 0], [3, 5], [0, 1], [2, 3]],
        updates=(4, 2, 2),
        window=[1, 2],
        inserted=[],
        map=[0, 1],
        vector=1,
    ),
    # Windows first, and duplicates of which the last wins.
    dict(x=(7,), indices=[[1], [2], [1]], updates=(3, 3), window=[0], inserted=[], map=[0], vector=1),
    # Windows that cross the border are skipped whole.
    dict(
        x=(5, 7),
        indices=[[4, 6], [1, 2], [-1, 2], [2, -1]],
        updates=(4, 2, 3),
        window=[1, 2],
        inserted=[],
        map=[0, 1],
        vector=1,
    ),
    dict(
        x=(5, 7),
        indices=[[0, 6, 3], [4, 0, 9]],
        updates=(3, 3),
        window=[0],
        inserted=[0],
        map=[1, 0],
        vector=0,
    ),
    dict(
        x=(3, 5, 2),
        indices=[[0, 4], [1, 7], [2, 2]],
        updates=(3, 2, 2),
        window=[2],
        inserted=[1],
        batch=[0],
        index_batch=[0],
        map=[1],
        vector=2,
    ),
    dict(
        x=(2, 3, 7),
        indices=[[[6], [1]], [[0], [5]], [[3], [99]]],
        updates=(3, 2),
        window=[],
        inserted=[2],
        batch=[0, 1],
        index_batch=[1, 0],
        map=[2],
        vector=2,
    ),
    dict(x=(11,), indices=[3], updates=(5,), window=[0], inserted=[], map=[0], vector=0, unique=True),
    dict(
        x=(5, 3), indices=np.zeros((0, 1), int), updates=(0, 3), window=[1], inserted=[0], map=[0], vector=1
    ),
    dict(x=(5, 0), indices=[[1], [2]], updates=(2, 0), window=[1], inserted=[0], map=[0], vector=1),
    dict(x=(0, 3), indices=[[1], [0]], updates=(2, 3), window=[1], inserted=[0], map=[0], vector=1),
    dict(x=(), indices=np.zeros((3, 0), int), updates=(3,), window=[], inserted=[], map=[], vector=1),
]


def scatter_targets(s, indices):
    """The element of x for every element of updates; windows that are not wholly inside are left out."""
    vectors = indices[..., None] if s["vector"] == indices.ndim else np.moveaxis(indices, s["vector"], -1)
    batch, index_batch = s.get("batch", []), s.get("index_batch", [])
    # index_batch counts axes of indices; without the vector axis those after it move down by one.
    index_batch = [a - (1 if a > s["vector"] else 0) for a in index_batch]
    window_axes = [a for a in range(len(s["x"])) if a not in s["inserted"] and a not in batch]
    window_shape = [s["updates"][a] for a in s["window"]]
    for at in np.ndindex(*vectors.shape[:-1]):
        start = [0] * len(s["x"])
        for component, axis in enumerate(s["map"]):
            start[axis] = int(vectors[at][component])
        for axis, source in zip(batch, index_batch):
            start[axis] = at[source]
        pairs = []
        for offset in np.ndindex(*window_shape):
            target, update, places = list(start), [0] * len(s["updates"]), iter(at)
            for axis, step in zip(window_axes, offset):
                target[axis] += step
            for axis, step in zip(s["window"], offset):
                update[axis] = step
            for axis in range(len(update)):
                update[axis] = update[axis] if axis in s["window"] else next(places)
            pairs.append((tuple(update), tuple(target)))
        if all(0 <= t < size for _, target in pairs for t, size in zip(target, s["x"])):
            yield from pairs


INTEGER_COMBINE = {
    "set": lambda old, new: new,
    "sum": lambda old, new: old + new,
    "prod": lambda old, new: old * new,
    "max": max,
    "min": min,
    "bitwise_and": lambda old, new: old & new,
    "bitwise_or": lambda old, new: old | new,
}
FLOAT_COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def scattered(s, indices, x, updates, combine):
    name = dt.name_of(x)
    if combine == "set" or name == "bool":
        y = x.copy()
        for update, target in scatter_targets(s, indices):
            y[target] = INTEGER_COMBINE[combine](y[target], updates[update])
        return Exact(y)
    if name not in dt.FLOATS:
        y = np.array(x.astype(object))
        for update, target in scatter_targets(s, indices):
            y[target] = INTEGER_COMBINE[combine](int(y[target]), int(updates[update]))
        return Exact(dt.wrap(y, name))
    y, values = dt.to_f64(x).copy(), dt.to_f64(updates)
    scale, hits = np.array(np.abs(y)), np.ones(y.shape, int)
    for update, target in scatter_targets(s, indices):
        y[target] = FLOAT_COMBINE[combine](y[target], values[update])
        scale[target] += abs(values[update])
        hits[target] += 1
    if combine in ("max", "min"):
        return Exact(dt.round_to(y, name))
    return Close(y, name, scale if combine == "sum" else None, int(hits.max(initial=1)))


def check_against_jax(s, indices, x, updates, combine, y):
    # XLA's scatter of a scalar fails to compile.
    if x.ndim == 0 or x.size == 0 or updates.size == 0 or dt.name_of(x) != "f64":
        return
    numbers = jax.lax.ScatterDimensionNumbers(
        update_window_dims=tuple(s["window"]),
        inserted_window_dims=tuple(s["inserted"]),
        scatter_dims_to_operand_dims=tuple(s["map"]),
        operand_batching_dims=tuple(s.get("batch", [])),
        scatter_indices_batching_dims=tuple(s.get("index_batch", [])),
    )
    functions = {
        "set": jax.lax.scatter,
        "sum": jax.lax.scatter_add,
        "prod": jax.lax.scatter_mul,
        "max": jax.lax.scatter_max,
        "min": jax.lax.scatter_min,
    }
    reference = functions[combine](x, jax_indices(indices, s["vector"]), updates, numbers, mode="drop")
    np.testing.assert_allclose(y.value, np.asarray(reference), rtol=1e-14)


def scatter(op):
    row, number = Row(op), 0
    for i, name in enumerate(dt.ANY):
        combines = ["set", "sum", "prod", "max", "min"] if name != "bool" else ["set"]
        if name in dt.BITS:
            combines = combines + ["bitwise_and", "bitwise_or"]
        for combine in combines:
            for _ in range(3 if name in ("f64", "f32") else 1):
                s = SCATTERS[number % len(SCATTERS)]
                index_type = ["i32", "i64", "i8", "i16"][number % 4]
                number += 1
                x, updates = dt.sample(row.rng, name, s["x"], 1), dt.sample(row.rng, name, s["updates"], 1)
                indices = np.asarray(s["indices"]).astype(dt.NUMPY[index_type])
                y = scattered(s, indices, x, updates, combine)
                check_against_jax(s, indices, x, updates, combine, y)
                attrs = {
                    "combine": Raw(combine),
                    "update_window_axes": s["window"],
                    "inserted_axes": s["inserted"],
                    "operand_batch_axes": s.get("batch", []),
                    "index_batch_axes": s.get("index_batch", []),
                    "index_map": s["map"],
                    "index_vector_axis": s["vector"],
                    "unique": s.get("unique", False),
                }
                row.check(op, without_empty(attrs), [x, indices, updates], y)
    return row


ROWS = {"scatter": scatter}
