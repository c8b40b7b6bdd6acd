"""Collectives over a mesh of 2 by 3 devices. Arrays have a leading device axis, row-major in the mesh."""

import numpy as np

from . import dtypes as dt
from .reductions import gather_results, kinds_of, mild
from .row import Exact, Raw, Row

MESH = [("x", 2), ("y", 3)]
DEVICES = 6
AXES = [["x"], ["y"], ["x", "y"]]


def groups(axes):
    """Devices that differ only in `axes`, each group in row-major order."""
    grid = np.arange(DEVICES).reshape(2, 3)
    if axes == ["x"]:
        return [list(g) for g in grid.T]
    return [list(g) for g in grid] if axes == ["y"] else [list(range(DEVICES))]


def per_device(axes, shape, dtype, function):
    """function(group's position, group's devices) for every device, stacked."""
    out = np.zeros((DEVICES, *shape), dtype)
    for group in groups(axes):
        for position, device in enumerate(group):
            out[device] = function(position, group)
    return out


def all_reduced(x, kind, axes):
    """The reduction over the group, in every device's place."""
    owner = {device: group for group in groups(axes) for device in group}
    lists = []
    for device in range(DEVICES):
        members = x[owner[device]]
        lists += list(members.reshape(len(members), -1).T) if x[0].size else []
    return gather_results(lists, x.shape, kind, dt.name_of(x))


def cases(shapes):
    number = 0
    for i, name in enumerate(dt.ANY):
        for j in range(2):
            yield name, shapes[number % len(shapes)], AXES[(i + j) % 3]
            number += 1


def all_reduce(op):
    row, number = Row(op, MESH), 0
    shapes = [(3, 5), (), (0, 3), (7,), (1,), (67,)]
    for i, name in enumerate(dt.ANY):
        for j, kind in enumerate(kinds_of(name)):
            axes, shape = AXES[(i + j) % 3], shapes[number % len(shapes)]
            number += 1
            x = mild(row.rng, name, (DEVICES, *shape))
            row.check(op, {"kind": Raw(kind), "mesh_axes": axes}, [x], all_reduced(x, kind, axes))
    return row


def all_gather(op):
    row = Row(op, MESH)
    for name, (shape, axis), axes in cases(
        [((3, 5), 0), ((7,), 0), ((0, 3), 0), ((3, 5), 1), ((1,), 0), ((3, 0), 0)]
    ):
        x = dt.sample_bits(row.rng, name, (DEVICES, *shape))
        y = [np.concatenate(x[group], axis) for group in groups(axes)]
        out = per_device(axes, y[0].shape, x.dtype, lambda position, group: np.concatenate(x[group], axis))
        row.check(op, {"axis": axis, "mesh_axes": axes}, [x], Exact(out))
    return row


def reduce_scatter(op):
    row, number = Row(op, MESH), 0
    shapes = [((6, 5), 0), ((3, 12), 1), ((0, 3), 0), ((6,), 0), ((6, 11), 0), ((18, 3), 0)]
    for i, name in enumerate(dt.ANY):
        for j, kind in enumerate(kinds_of(name)):
            axes, (shape, axis) = AXES[(i + j) % 3], shapes[number % len(shapes)]
            number += 1
            x = mild(row.rng, name, (DEVICES, *shape))
            whole = all_reduced(x, kind, axes)

            def share(array):
                parts = [np.split(a, len(groups(axes)[0]), axis) for a in array]
                return per_device(axes, parts[0][0].shape, array.dtype, lambda p, g: parts[g[p]][p])

            whole.value = share(whole.value)
            if getattr(whole, "scale", None) is not None:
                whole.scale = share(whole.scale)
            row.check(op, {"kind": Raw(kind), "axis": axis, "mesh_axes": axes}, [x], whole)
    return row


def all_to_all(op):
    row = Row(op, MESH)
    plans = list(cases([((6, 5), 0, 1), ((6,), 0, 0), ((0, 3), 0, 1), ((3, 12), 1, 0), ((6, 3), 0, 0)]))
    plans.append(("f32", ((3, 5), 0, 1), ["y"]))
    for name, (shape, split, concat), axes in plans:
        x = dt.sample_bits(row.rng, name, (DEVICES, *shape))

        def received(position, group):
            return np.concatenate([np.split(x[d], len(group), split)[position] for d in group], concat)

        example = received(0, groups(axes)[0])
        out = per_device(axes, example.shape, x.dtype, received)
        row.check(op, {"split_axis": split, "concat_axis": concat, "mesh_axes": axes}, [x], Exact(out))
    return row


def collective_permute(op):
    row = Row(op, MESH)
    plans = {
        2: [([0, 1], [1, 0]), ([1], [0]), ([], [])],
        3: [([0, 1, 2], [1, 2, 0]), ([2, 0], [0, 0 + 2]), ([1], [1])],
    }
    plans[6] = [([0, 1, 2, 3, 4, 5], [5, 0, 1, 2, 3, 4]), ([5, 1], [2, 3]), ([0], [5])]
    for n, (name, shape, axes) in enumerate(cases([(3, 5), (), (0, 3), (7,), (1,)])):
        x = dt.sample_bits(row.rng, name, (DEVICES, *shape))
        sources, targets = plans[len(groups(axes)[0])][n // 2 % 3]

        def received(position, group):
            return (
                x[group[sources[targets.index(position)]]]
                if position in targets
                else np.zeros(shape, x.dtype)
            )

        out = per_device(axes, shape, x.dtype, received)
        row.check(op, {"mesh_axes": axes, "sources": sources, "targets": targets}, [x], Exact(out))
    return row


def device_index(op):
    row = Row(op, MESH)
    for axes in AXES:
        out = per_device(axes, (), np.uint32, lambda position, group: position)
        row.check(op, {"mesh_axes": axes}, [], Exact(out))
    return row


ROWS = {
    "all_reduce": all_reduce,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "all_to_all": all_to_all,
    "collective_permute": collective_permute,
    "device_index": device_index,
}
