"""Makes tests/data/safetensors with safetensors 0.8 and torch 2.11: run it in tests/data.

Every array of shape (2, 3) holds 0 … 5 in row-major order (bool: is the number odd), so the tests know the values
without a second list. With a file written by Systole as argument it opens that with the package and prints what it
finds, one line per array: what tests/safetensors_test.cpp compares when SYSTOLE_PYTHON names a Python that has it.
"""

import json
import pickle
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

SIX = torch.arange(6).reshape(2, 3)
DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "i64": torch.int64, "i32": torch.int32,
    "i16": torch.int16, "i8": torch.int8, "u64": torch.uint64, "u32": torch.uint32, "u16": torch.uint16,
    "u8": torch.uint8,
}


def show(file):
    with safe_open(file, "pt") as opened:
        for name in sorted(opened.keys()):
            value = opened.get_tensor(name)
            numbers = value.to(torch.float64).flatten().tolist()
            print(name, str(value.dtype).removeprefix("torch."), list(value.shape), numbers)
        print(sorted((opened.metadata() or {}).keys()))


def main():
    folder = Path("safetensors")
    folder.mkdir(exist_ok=True)
    arrays = {name: SIX.to(dtype) for name, dtype in DTYPES.items()}
    arrays["bool"] = SIX % 2 == 1
    arrays["scalar"] = torch.tensor(7.5)
    arrays["empty"] = torch.zeros(0, 4)
    save_file(arrays, folder / "dtypes.safetensors", metadata={"note": "grüße, \"quotes\"\n\\"})
    save_file({"w": SIX.float()}, folder / "plain.safetensors")

    # One model in two shards, as transformers writes it.
    shards = {
        "model-00001-of-00002.safetensors": {"a.weight": SIX.float(), "a.bias": SIX[0].float()},
        "model-00002-of-00002.safetensors": {"b.weight": SIX.double()},
    }
    (folder / "sharded").mkdir(exist_ok=True)
    for name, part in shards.items():
        save_file(part, folder / "sharded" / name, metadata={"format": "pt"})
    index = {"metadata": {"total_size": 24 + 12 + 48},
             "weight_map": {key: name for name, part in shards.items() for key in part}}
    (folder / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")

    # What must not be opened.
    torch.save({"w": SIX}, folder / "zip.pt")
    (folder / "pickle.pt").write_bytes(pickle.dumps({"w": [1, 2, 3]}, protocol=2))


if __name__ == "__main__":
    show(sys.argv[1]) if len(sys.argv) > 1 else main()
