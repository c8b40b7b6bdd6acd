"""Makes the fixtures of data_*_test.cpp beside this file: folds by scikit-learn, transforms by PyTorch and colorsys,
spectra by numpy and scipy, pictures by Pillow and by hand. Run by hand: python make_sets.py"""

import colorsys
import io
import pathlib
import struct
import zlib

import numpy as np
import scipy.fft
import scipy.stats
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.model_selection import KFold, StratifiedKFold

HERE = pathlib.Path(__file__).parent


def folds():
    arrays = {"permutation_100_42": np.random.RandomState(42).permutation(100)}
    for n, k, seed in [(10, 3, None), (17, 5, 0), (100, 7, 42), (569, 5, 1)]:
        number = np.empty(n, np.int64)
        split = KFold(k, shuffle=seed is not None, random_state=seed).split(np.zeros(n))
        for i, (train, test) in enumerate(split):
            assert np.all(np.diff(test) > 0) and np.array_equal(np.sort(np.r_[train, test]), np.arange(n))
            number[test] = i
        arrays[f"kfold_{n}_{k}_{'none' if seed is None else seed}"] = number
    draw = np.random.RandomState(5)
    labels = {"uneven": draw.choice([7, 3, -2], 60, p=[0.6, 0.3, 0.1]), "many": draw.randint(0, 10, 300)}
    for name, y in labels.items():
        arrays[f"labels_{name}"] = y.astype(np.int64)
        for k, seed in [(3, None), (4, 0), (5, 123)]:
            if np.bincount(y + 2).max() < k:
                continue
            number = np.empty(len(y), np.int64)
            split = StratifiedKFold(k, shuffle=seed is not None, random_state=seed).split(np.zeros(len(y)), y)
            for i, (_, test) in enumerate(split):
                number[test] = i
            arrays[f"stratified_{name}_{k}_{'none' if seed is None else seed}"] = number
    np.savez_compressed(HERE / "folds.npz", **arrays)


def rotated(x, degrees, fill):
    """grid_sample with what is outside equal to fill: the picture less fill is rotated on zeros."""
    n, h, w, c = x.shape
    a = np.deg2rad(degrees)
    # Places in [-1, 1]: the rotation is one of pixels, so width and height enter.
    theta = torch.tensor([[np.cos(a), -np.sin(a) * h / w, 0], [np.sin(a) * w / h, np.cos(a), 0]], dtype=torch.float64)
    grid = F.affine_grid(theta.expand(n, 2, 3), (n, c, h, w), align_corners=False)
    planes = torch.tensor(x.astype(np.float64) - fill).permute(0, 3, 1, 2)
    out = F.grid_sample(planes, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return out.permute(0, 2, 3, 1).numpy() + fill


def jitter(x, brightness, contrast, saturation, hue):
    grey = lambda v: v @ np.array([0.2989, 0.587, 0.114])
    x = np.clip(x * brightness, 0, 1)
    x = np.clip(x * contrast + (1 - contrast) * grey(x).mean((1, 2))[:, None, None, None], 0, 1)
    x = np.clip(x * saturation + (1 - saturation) * grey(x)[..., None], 0, 1)
    flat = x.reshape(-1, 3)
    out = []
    for r, g, b in flat:
        h, s, v = colorsys.rgb_to_hsv(r, g, b)
        out.append(colorsys.hsv_to_rgb((h + hue) % 1, s, v))
    return np.array(out).reshape(x.shape)


def transforms():
    draw = np.random.RandomState(3)
    u8 = draw.randint(0, 256, (3, 7, 9, 3)).astype(np.uint8)
    f32 = draw.uniform(0, 1, (3, 7, 9, 3)).astype(np.float32)
    planes = torch.tensor(f32.astype(np.float64)).permute(0, 3, 1, 2)
    resize = lambda h, w: F.interpolate(planes, (h, w), mode="bilinear", align_corners=False).permute(0, 2, 3, 1).numpy()
    flat = f32.reshape(3, -1).astype(np.float64)
    deviation = np.maximum(flat.std(1, keepdims=True), 1 / np.sqrt(flat.shape[1]))
    mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2471, 0.2435, 0.2616])
    np.savez_compressed(
        HERE / "transforms.npz",
        u8=u8,
        f32=f32,
        normalised=((u8 / 255.0 - mean) / std).astype(np.float32),
        standardised=((flat - flat.mean(1, keepdims=True)) / deviation).reshape(f32.shape).astype(np.float32),
        rotated_30=rotated(f32, 30, 0).astype(np.float32),
        rotated_90=rotated(f32, 90, 0.25).astype(np.float32),
        larger=resize(13, 10).astype(np.float32),
        smaller=resize(4, 5).astype(np.float32),
        jittered=jitter(f32.astype(np.float64), 1.3, 0.8, 1.5, 0.1).astype(np.float32),
        beta_02=scipy.stats.beta.ppf(np.arange(0, 1.0625, 0.0625), 0.2, 0.2),
        beta_1=scipy.stats.beta.ppf(np.arange(0, 1.0625, 0.0625), 1, 1),
        beta_4=scipy.stats.beta.ppf(np.arange(0, 1.0625, 0.0625), 4, 4),
    )


def sound():
    draw = np.random.RandomState(9)
    t = np.arange(1000) / 8000
    x = (0.5 * np.sin(2 * np.pi * 440 * t) + 0.1 * draw.standard_normal(1000)).astype(np.float32)
    frame, hop, rate, mels = 256, 128, 8000, 20
    padded = np.pad(x.astype(np.float64), frame // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
    frames = np.stack([padded[i : i + frame] * window for i in range(0, len(padded) - frame + 1, hop)])
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    mel = lambda f: 2595 * np.log10(1 + f / 700)
    corners = 700 * (10 ** (np.linspace(mel(0), mel(rate / 2), mels + 2) / 2595) - 1)
    hertz = np.arange(frame // 2 + 1) * rate / frame
    up = (hertz[:, None] - corners[:-2]) / (corners[1:-1] - corners[:-2])
    down = (corners[2:] - hertz[:, None]) / (corners[2:] - corners[1:-1])
    log_mel = np.log(power @ np.maximum(0, np.minimum(up, down)) + 1e-10)
    odd = np.stack([x[i : i + 60].astype(np.float64) * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(60) / 60))
                    for i in range(0, len(x) - 60 + 1, 50)])
    np.savez_compressed(
        HERE / "sound.npz",
        samples=x,
        spectrogram=power.astype(np.float32),
        spectrogram_60=(np.abs(np.fft.rfft(odd, axis=1)) ** 2).astype(np.float32),
        log_mel=log_mel.astype(np.float32),
        mfcc=scipy.fft.dct(log_mel, type=2, norm="ortho", axis=1)[:, :13].astype(np.float32),
    )


def png(path, height, width, depth, colour, rows, extra=b""):
    """rows: the bytes of each row, without the filter's."""
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return chunk


def pictures():
    draw = np.random.RandomState(11)
    colours = draw.randint(0, 256, (5, 6, 3)).astype(np.uint8)
    grey = draw.randint(0, 256, (5, 6)).astype(np.uint8)
    smooth = np.add.outer(np.arange(16) * 6, np.arange(24) * 5).astype(np.uint8)
    photo = np.stack([smooth, 255 - smooth, smooth // 2 + 40], -1).astype(np.uint8)
    deep = draw.randint(0, 65536, (5, 6, 3)).astype(">u2")
    deep_grey = draw.randint(0, 65536, (5, 6)).astype(">u2")
    palette = draw.randint(0, 256, (4, 3)).astype(np.uint8)
    places = draw.randint(0, 4, (5, 6)).astype(np.uint8)
    alpha = np.dstack([colours, draw.randint(0, 256, (5, 6)).astype(np.uint8)])
    Image.fromarray(colours).save(HERE / "colours.png")
    Image.fromarray(grey).save(HERE / "grey.png")
    Image.fromarray(alpha).save(HERE / "alpha.png")
    png(HERE / "deep.png", 5, 6, 16, 2, [row.tobytes() for row in deep])
    png(HERE / "deep_grey.png", 5, 6, 16, 0, [row.tobytes() for row in deep_grey])
    chunk = png(HERE / "palette.png", 5, 6, 8, 3, [])
    # Two bits a pixel, with a transparent colour that counts for nothing.
    packed = [bytes(sum(int(v) << (6 - 2 * i) for i, v in enumerate(row[s : s + 4])) for s in (0, 4)) for row in places]
    png(HERE / "palette.png", 5, 6, 2, 3, packed, chunk(b"PLTE", palette.tobytes()) + chunk(b"tRNS", b"\0\x80"))
    bomb = chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
    (HERE / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bomb + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b""))
    short = chunk(b"IHDR", struct.pack(">IIBBBBB", 8000, 8000, 8, 2, 0, 0, 0))
    (HERE / "short.png").write_bytes(b"\x89PNG\r\n\x1a\n" + short + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b""))
    Image.fromarray(photo).save(HERE / "photo.jpg", quality=95, subsampling=0)
    Image.fromarray(smooth).save(HERE / "grey.jpg", quality=95)
    photo_bytes = bytearray((HERE / "photo.jpg").read_bytes())
    at = photo_bytes.index(b"\xff\xc0")
    photo_bytes[at + 5 : at + 9] = struct.pack(">HH", 65000, 65000)
    (HERE / "bomb.jpg").write_bytes(photo_bytes)
    back = lambda name: np.asarray(Image.open(HERE / name))
    np.savez_compressed(
        HERE / "pictures.npz",
        colours=colours,
        colours_grey=np.asarray(Image.fromarray(colours).convert("L")),
        grey=grey,
        alpha=colours,
        deep=np.rint(deep.astype(np.float64) / 257).astype(np.uint8),
        deep_grey=np.rint(deep_grey.astype(np.float64) / 257).astype(np.uint8),
        palette=palette[places],
        photo=back("photo.jpg"),
        grey_jpg=back("grey.jpg"),
    )


folds()
transforms()
sound()
pictures()
