"""A row of the conformance table: one graph that holds all cases of an op, and the arrays that go with it.

A case is a few inputs and statements whose names begin with the case's number; the arrays in the .npz carry
the same names. An expected value is either Exact (stored in the result's own type, small floats as their bits)
or Close (stored as f64). Beside a Close value stands NAME.scale, what c·eps is multiplied with: sqrt(K) times the
sum of magnitudes; where it is missing, the scale is the magnitude of the value. In rows that have both, a scale
of 0 marks Exact f64.
"""

import io
import zipfile
import zlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from . import dtypes


class Raw(str):
    """Attribute text that is printed without quotes: the name of a dtype or of a way to combine."""


@dataclass
class Exact:
    value: np.ndarray


@dataclass
class Close:
    value: np.ndarray
    dtype: str
    scale: np.ndarray | None = None
    k: int = 1


def close_or_exact(value, dtype, scale=None, k=1):
    """Close for floats; integers, computed exactly, are reduced to their width."""
    if dtype in dtypes.FLOATS:
        return Close(np.asarray(value, np.float64), dtype, scale, k)
    return Exact(dtypes.wrap(value, dtype))


def type_text(dtype, shape):
    return f"{dtype}[{','.join(str(d) for d in shape)}]"


def attribute_text(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ",".join(attribute_text(v) for v in value) + "]"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value))


def shortened(value, bits, rounding=np.rint):
    """f64 values with zeros after so many bits, which pack better."""
    mantissa, exponent = np.frexp(np.asarray(value, np.float64))
    return np.ldexp(rounding(np.ldexp(mantissa, bits)), exponent - bits)


class Case:
    def __init__(self, row, number):
        self.row, self.prefix = row, f"c{number}"
        self.outputs = 0

    def input(self, name, array, shape=None):
        """A graph input holding `array`, which has a leading device axis when the row has a mesh."""
        array = np.asarray(array)
        shape = shape or (array.shape[1:] if self.row.mesh else array.shape)
        full = f"{self.prefix}.{name}"
        self.row.inputs.append(f"%{full}: {type_text(dtypes.name_of(array), shape)}")
        self.row.store(full, array)
        return f"%{full}"

    def inputs(self, **arrays):
        return [self.input(name, array) for name, array in arrays.items()]

    def let(self, name, op, operands, attrs=None, graphs=()):
        """A statement whose one result is not an output."""
        value = f"%{self.prefix}.{name}"
        self.statement([value], op, operands, attrs, graphs, None)
        return value

    def expect(self, op, operands, attrs, *results, graphs=()):
        """A statement whose results are all outputs with these expected values."""
        names = [f"{self.prefix}.y{self.outputs + i}" for i in range(len(results))]
        self.outputs += len(results)
        types = []
        for name, result in zip(names, results):
            shape = np.shape(result.value)[1:] if self.row.mesh else np.shape(result.value)
            dtype = result.dtype if isinstance(result, Close) else dtypes.name_of(result.value)
            types.append(type_text(dtype, shape))
            self.row.outputs.append(name)
            self.row.store_expected(name, result)
        self.statement([f"%{name}" for name in names], op, operands, attrs, graphs, types)

    def statement(self, values, op, operands, attrs, graphs, types):
        text = f"{', '.join(values)} = {op}({', '.join(operands)})"
        if attrs:
            text += " {" + ", ".join(f"{key}={attribute_text(value)}" for key, value in attrs.items()) + "}"
        text += "".join(f" @{graph}" for graph in graphs)
        if types:
            text += " : " + ", ".join(types)
        self.row.statements.append(text)


class Row:
    def __init__(self, name, mesh=None):
        self.name, self.mesh = name, mesh
        self.rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
        self.inputs, self.statements, self.outputs, self.graphs = [], [], [], []
        self.arrays, self.cases = {}, 0
        self.has_close, self.exact_f64 = False, []

    def case(self):
        self.cases += 1
        return Case(self, self.cases - 1)

    def check(self, op, attrs, operands, *results, graphs=()):
        """A case of one statement: `operands` are arrays, named a, b, c, …"""
        case = self.case()
        values = [case.input(chr(ord("a") + i), array) for i, array in enumerate(operands)]
        case.expect(op, values, attrs, *results, graphs=graphs)

    def graph(self, text):
        """A sub-graph, in text."""
        self.graphs.append(text.strip() + "\n")

    def store(self, name, array):
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        if array.dtype.type.__module__ != "numpy":
            array = array.view(f"u{array.dtype.itemsize}")
        assert name not in self.arrays, name
        self.arrays[name] = array

    def store_expected(self, name, result):
        if isinstance(result, Exact):
            self.store(name, result.value)
            if result.value.dtype == np.float64:
                self.exact_f64.append(name)
            return
        self.has_close = True
        # Sixteen bits more than the result has cost a hundred-thousandth of its rounding.
        bits = min(ml_dtypes.finfo(dtypes.NUMPY[result.dtype]).nmant + 17, 53)
        self.store(name, shortened(result.value, bits))
        if result.scale is not None or result.k != 1:
            scale = np.abs(result.value) if result.scale is None else result.scale
            scale = np.broadcast_to(shortened(scale * np.sqrt(result.k), 7, np.ceil), np.shape(result.value))
            if scale.any():
                self.store(f"{name}.scale", scale)

    def text(self):
        mesh = ""
        if self.mesh:
            mesh = " mesh(" + ", ".join(f"{name}={size}" for name, size in self.mesh) + ")"
        lines = ["systole.ir 1", ""]
        lines += [graph for graph in self.graphs]
        signature = ",\n    ".join(self.inputs)
        lines.append(f"graph @main(\n    {signature}){mesh} {{" if self.inputs else f"graph @main(){mesh} {{")
        lines += ["  " + statement for statement in self.statements]
        lines.append("  return " + ",\n    ".join(f"{name}: %{name}" for name in self.outputs))
        return "\n".join(lines + ["}", ""])

    def write(self, folder):
        if self.has_close:
            for name in self.exact_f64:
                self.store(f"{name}.scale", np.float64(0))
        (folder / f"{self.name}.sir").write_text(self.text())
        with zipfile.ZipFile(folder / f"{self.name}.npz", "w") as archive:
            for name, array in self.arrays.items():
                data = io.BytesIO()
                np.lib.format.write_array(data, array, version=(1, 0))
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data.getvalue(), compresslevel=9)
