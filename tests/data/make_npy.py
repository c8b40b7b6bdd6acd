"""Makes the .npy and .npz fixtures of tests/io_test.cpp with numpy 2.2 and ml_dtypes 0.5: run it in this folder.

Every array of shape (2, 3) holds 0 … 5 in row-major order (bool: is the number odd), so the tests know the values
without a second list.
"""

import io
import pickle
import struct
import zipfile
import zlib

import ml_dtypes
import numpy as np

SIX = np.arange(6).reshape(2, 3)
NUMPY_DTYPES = {
    "f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
    "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1",
}
SMALL_FLOATS = {
    "bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
}


def arrays():
    out = {name: SIX.astype(code) for name, code in NUMPY_DTYPES.items()}
    out["bool"] = SIX % 2 == 1
    out.update({name: SIX.astype(dtype) for name, dtype in SMALL_FLOATS.items()})
    return out


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


class Unseekable(io.BytesIO):
    """Makes zipfile write sizes behind the data, in descriptors."""

    def seekable(self):
        return False

    def tell(self):
        raise io.UnsupportedOperation

    def seek(self, *_):
        raise io.UnsupportedOperation


def zip64_everywhere(name, content):
    """One stored member whose every size and offset stands in a zip64 field, as in archives above 4 GiB."""
    ones, crc, size = 0xFFFFFFFF, zlib.crc32(content), len(content)
    common = struct.pack("<HHHHHIIIH", 45, 0, 0, 0, 0x21, crc, ones, ones, len(name))
    local_extra = struct.pack("<HHQQ", 1, 16, size, size)
    central_extra = struct.pack("<HHQQQ", 1, 24, size, size, 0)
    data = b"PK\3\4" + common + struct.pack("<H", len(local_extra)) + name + local_extra + content
    central = b"PK\1\2" + struct.pack("<H", 45) + common
    central += struct.pack("<HHHHII", len(central_extra), 0, 0, 0, 0, ones) + name + central_extra
    wide = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), len(data))
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(data) + len(central), 1)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, ones, ones, 0)
    return data + central + wide + locator + end


def write(name, content):
    with open(name, "wb") as file:
        file.write(content)


np.savez("dtypes.npz", **arrays())
np.savez_compressed("compressed.npz", **arrays())
stream = Unseekable()
np.savez_compressed(stream, a=SIX.astype("f4"), b=np.float64(0.5))
write("stream.npz", stream.getvalue())
write("zip64.npz", zip64_everywhere(b"a.npy", npy(SIX.astype("f4"))))
bomb = io.BytesIO()
with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr(zipfile.ZipInfo("a.npy"), npy(SIX.astype("f4")) + bytes(4 << 20), zipfile.ZIP_DEFLATED)
write("bomb.npz", bomb.getvalue())

np.save("f32.npy", SIX.astype("f4"))
np.save("scalar.npy", np.float64(2.5))
np.save("empty.npy", np.zeros((0, 3), "i4"))
np.save("vector.npy", np.arange(5, dtype="u2"))
np.save("fortran.npy", np.asfortranarray(np.arange(24, dtype="i4").reshape(2, 3, 4)))
np.save("big_endian.npy", np.array([[1.5, -2], [3e300, 0.1]], ">f8"))
np.save("big_endian_fortran.npy", np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)))
write("version2.npy", npy(SIX.astype("f4"), (2, 0)))
write("version3.npy", npy(SIX.astype("f4"), (3, 0)))
# A bool of another non-zero byte is true to numpy as well.
write("odd_bool.npy", npy(np.zeros(4, "?"))[:-4] + bytes([0, 1, 2, 255]))

np.save("structured.npy", np.zeros(2, [("a", "f4"), ("b", "i4")]))
np.save("objects.npy", np.array([None, 1], dtype=object))
np.save("complex.npy", np.zeros(2, "c8"))
np.save("text.npy", np.array(["ab", "c"]))
write("pickle.npy", pickle.dumps(SIX, protocol=4))
