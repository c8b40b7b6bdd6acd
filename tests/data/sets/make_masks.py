#!/usr/bin/env python3
"""Pictures whose numbers are kept, turned or printed, for data_pictures_test.cpp.

  python3 tests/data/sets/make_masks.py       # needs numpy and Pillow; writes masks/ beside this file
"""
import pathlib

import numpy as np
from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).resolve().parent / "masks"


def main():
    HERE.mkdir(exist_ok=True)
    rng = np.random.default_rng(27)
    wanted = {}

    def keep(name, values):
        wanted[name] = np.ascontiguousarray(values)

    mask = rng.integers(0, 3, (5, 7), dtype=np.uint8)
    palette = Image.fromarray(mask, "P")
    palette.putpalette([0, 0, 0, 0, 128, 0, 128, 0, 0])
    palette.save(HERE / "palette.png", bits=2)
    keep("palette", mask)
    keep("palette_seen", palette.convert("L"))
    Image.fromarray(mask).save(HERE / "grey.png")
    keep("grey", mask)
    Image.fromarray((mask > 0).astype(bool)).save(HERE / "one_bit.png")
    keep("one_bit", (mask > 0).astype(np.uint8))
    depth = (mask.astype(np.uint16) * 1000) + rng.integers(0, 2, mask.shape, dtype=np.uint16)
    Image.fromarray(depth).save(HERE / "depth.png")
    keep("depth", depth)

    photo = rng.integers(0, 256, (16, 24, 3), dtype=np.uint8)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for ending, options in (("jpg", {"quality": 95, "subsampling": 0}), ("png", {})):
            if ending == "png" and orientation not in (3, 6):
                continue
            name = f"turned{orientation}.{ending}"
            Image.fromarray(photo).save(HERE / name, exif=exif, **options)
            with Image.open(HERE / name) as picture:
                keep(name, ImageOps.exif_transpose(picture).convert("RGB"))
                if orientation == 6:
                    keep(name + "_stored", picture.convert("RGB"))

    smooth = np.stack([np.add.outer(np.arange(16) * k, np.arange(24) * 3) for k in (1, 4, 7, 2)], -1).astype(np.uint8)
    Image.fromarray(smooth, "CMYK").save(HERE / "cmyk.jpg", quality=95, subsampling=0)
    with Image.open(HERE / "cmyk.jpg") as picture:
        keep("cmyk", picture.convert("RGB"))

    # Bytes that belong to nothing, before the end mark and between two segments of the header.
    plain = HERE / "plain.jpg"
    Image.fromarray(photo).save(plain, quality=95, subsampling=0)
    good = plain.read_bytes()
    plain.unlink()
    (HERE / "extra_end.jpg").write_bytes(good[:-2] + b"\x12\x34\x56\x78\x9a" + good[-2:])
    first = 2 + 2 + int.from_bytes(good[4:6], "big")
    (HERE / "extra_head.jpg").write_bytes(good[:first] + b"\x12\x34\x56" + good[first:])
    # The same before a camera's EXIF.
    turned = (HERE / "turned6.jpg").read_bytes()
    first = 2 + 2 + int.from_bytes(turned[4:6], "big")
    (HERE / "extra_exif.jpg").write_bytes(turned[:first] + b"\x12\x34\x56" + turned[first:])
    with Image.open(HERE / "extra_exif.jpg") as picture:
        keep("extra_exif", ImageOps.exif_transpose(picture).convert("RGB"))
    # Before the tables of a later scan, before the scan itself, and before the restart markers of one scan. Libjpeg
    # swallows what its buffer of bits has room for, and warns of more.
    junk = bytes(range(0x10, 0x30))
    Image.fromarray(photo).save(plain, quality=95, subsampling=0, progressive=True)
    scans = plain.read_bytes()
    scan = scans.index(b"\xff\xda", scans.index(b"\xff\xda") + 2)
    tables = scans.rindex(b"\xff\xc4", 0, scan)
    (HERE / "extra_tables.jpg").write_bytes(scans[:tables] + junk + scans[tables:])
    (HERE / "extra_scan.jpg").write_bytes(scans[:scan] + junk + scans[scan:])
    Image.fromarray(photo).save(plain, quality=95, subsampling=0, restart_marker_blocks=1)
    restarts = plain.read_bytes()
    (HERE / "restarts.jpg").write_bytes(restarts)
    restart = restarts.index(b"\xff\xd1", restarts.index(b"\xff\xda"))
    (HERE / "few_restart.jpg").write_bytes(restarts[:restart] + junk[:3] + restarts[restart:])
    (HERE / "extra_restart.jpg").write_bytes(restarts[:restart] + junk + restarts[restart:])
    plain.unlink()
    for name in ("extra_end", "extra_head", "extra_tables", "extra_scan", "restarts", "few_restart"):
        with Image.open(HERE / (name + ".jpg")) as picture:
            keep(name, picture.convert("RGB"))
    np.savez(HERE / "masks.npz", **wanted)


if __name__ == "__main__":
    main()
