#!/usr/bin/env python3
"""Fixtures for zoo_test.cpp: what the models of the zoo give in PyTorch, in f64.

  python3 tests/parity/make_zoo.py [MODEL…]       # needs numpy and torch 2; writes zoo/MODEL.json beside this file

The reference networks are written here in plain PyTorch, with the names of torchvision's and the published GPT-2 and BERT
checkpoints. Weights and inputs come from the counter hash of make_fixtures.py, so a fixture holds only the names and shapes
of a state_dict, in order, and the outputs. Images are NHWC arrays; PyTorch gets them as NCHW.
"""
import json
import math
import os
import sys
import zlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from make_fixtures import integers, uniform

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo")


def value(name, shape):
    """Of a parameter or running statistic, by the crc32 of its name."""
    seed = zlib.crc32(name.encode())
    if name.endswith("running_var"):
        return 1 + 0.25 * uniform(seed, shape)
    if name.endswith("running_mean") or "bias" in name:
        return 0.1 * uniform(seed, shape)
    if len(shape) == 1:
        return 1 + 0.1 * uniform(seed, shape)
    return uniform(seed, shape) / math.sqrt(math.prod(shape[1:]))


def images(shape):
    return torch.from_numpy(uniform(1, shape)).permute(0, 3, 1, 2)


def words(shape, bound, seed=1):
    return torch.from_numpy(integers(seed, shape, bound))


class LeNet(nn.Module):
    def __init__(self, channels, side):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16 * side * side, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(64 * 8 * 8, 512), nn.Linear(512, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc2(F.relu(self.fc1(x)))


def cnn3():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


class AlexNet(nn.Module):
    def __init__(self, small, dense):
        super().__init__()
        first = nn.Conv2d(3, 64, 3, 2, 1) if small else nn.Conv2d(3, 64, 11, 4, 2)
        second = nn.Conv2d(64, 192, 3, padding=1) if small else nn.Conv2d(64, 192, 5, padding=2)
        pool = (lambda: nn.MaxPool2d(2)) if small else (lambda: nn.MaxPool2d(3, 2))
        self.features = nn.Sequential(
            first, nn.ReLU(), pool(), second, nn.ReLU(), pool(), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), pool())
        self.avgpool = nn.Identity() if small else nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(256 * (4 if small else 36), dense), nn.ReLU(), nn.Dropout(), nn.Linear(dense, dense),
            nn.ReLU(), nn.Linear(dense, 10))

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


class Block(nn.Module):
    def __init__(self, channels, width, stride, bottleneck, v1):
        super().__init__()
        out = 4 * width if bottleneck else width
        if bottleneck:
            self.conv1 = nn.Conv2d(channels, width, 1, stride if v1 else 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1 if v1 else stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        else:
            self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
            self.conv3 = None
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.conv3 is not None:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depth, stem, small=False, v1=False):
        super().__init__()
        bottleneck = depth >= 50
        blocks = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
        self.conv1 = nn.Conv2d(3, stem, 3, 1, 1, bias=False) if small else nn.Conv2d(3, stem, 7, 2, 3, bias=False)
        self.bn1, self.small, channels = nn.BatchNorm2d(stem), small, stem
        for stage, count in enumerate(blocks):
            width, layers = stem << stage, []
            for i in range(count):
                layers.append(Block(channels, width, 2 if i == 0 and stage > 0 else 1, bottleneck, v1))
                channels = 4 * width if bottleneck else width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(channels, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class LstmClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(10, 3)

    def forward(self, x):
        h = self.lstm(self.emb(x))[1][0]
        return self.fc(torch.cat([h[-2], h[-1]], 1))


class LstmLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.lstm, self.fc = nn.Embedding(20, 6), nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 20)

    def forward(self, x):
        return self.fc(self.lstm(self.emb(x))[0])


class Conv1D(nn.Module):
    """The published GPT-2's dense layer, its weight [in, out]."""

    def __init__(self, out, inputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, out)), nn.Parameter(torch.empty(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(3 * width, width), "c_proj": Conv1D(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(4 * width, width), "c_proj": Conv1D(width, 4 * width)})

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (u.view(b, t, self.heads, -1).transpose(1, 2) for u in self.attn["c_attn"](self.ln_1(x)).split(d, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.attn["c_proj"](a)
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(40, 16), "wpe": nn.Embedding(12, 16),
            "h": nn.ModuleList(GptBlock(16, 2) for _ in range(2)), "ln_f": nn.LayerNorm(16)})

    def forward(self, x):
        t = self.transformer
        y = t["wte"](x) + t["wpe"].weight[:x.shape[1]]
        for block in t["h"]:
            y = block(y)
        return F.linear(t["ln_f"](y), t["wte"].weight)


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        norm = lambda: nn.LayerNorm(width, eps=1e-12)
        self.attention = nn.ModuleDict({
            "self": nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")}),
            "output": nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": norm()})})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = nn.ModuleDict({"dense": nn.Linear(4 * width, width), "LayerNorm": norm()})

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (self.attention["self"][n](x).view(b, t, self.heads, -1).transpose(1, 2) for n in ("query", "key", "value"))
        scores = q @ k.transpose(2, 3) / math.sqrt(d // self.heads)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf)
        a = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = self.attention["output"]["LayerNorm"](self.attention["output"]["dense"](a) + x)
        y = self.output["dense"](F.gelu(self.intermediate["dense"](x)))
        return self.output["LayerNorm"](y + x)


class Bert(nn.Module):
    def __init__(self, pooler):
        super().__init__()
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(30, 16), "position_embeddings": nn.Embedding(10, 16),
            "token_type_embeddings": nn.Embedding(2, 16), "LayerNorm": nn.LayerNorm(16, eps=1e-12)})
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(BertLayer(16, 2) for _ in range(2))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(16, 16)}) if pooler else None

    def forward(self, x, segments, mask):
        e = self.embeddings
        y = e["word_embeddings"](x) + e["position_embeddings"].weight[:x.shape[1]] + e["token_type_embeddings"](segments)
        y = e["LayerNorm"](y)
        for layer in self.encoder["layer"]:
            y = layer(y, mask)
        return y


class BertClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert, self.classifier = Bert(True), nn.Linear(16, 3)

    def forward(self, x, segments, mask):
        return self.classifier(torch.tanh(self.bert.pooler["dense"](self.bert(x, segments, mask)[:, 0])))


class BertMasked(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = Bert(False)
        decoder = nn.Linear(16, 30)
        decoder.weight = self.bert.embeddings["word_embeddings"].weight
        self.cls = nn.ModuleDict({"predictions": nn.Module()})
        head = self.cls["predictions"]
        head.bias = nn.Parameter(torch.empty(30))
        head.transform = nn.ModuleDict({"dense": nn.Linear(16, 16), "LayerNorm": nn.LayerNorm(16, eps=1e-12)})
        head.decoder = decoder
        decoder.bias = head.bias

    def forward(self, x, segments, mask):
        head = self.cls["predictions"]
        return head.decoder(head.transform["LayerNorm"](F.gelu(head.transform["dense"](self.bert(x, segments, mask)))))


def mlp():
    return nn.Sequential(nn.Linear(12, 9), nn.GELU(), nn.Linear(9, 7), nn.GELU(), nn.Linear(7, 4))


def bert_input():
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    return words((2, 8), 30), words((2, 8), 2, 2), mask


MODELS = {
    "mlp": (mlp, lambda: (torch.from_numpy(uniform(1, (3, 12))),)),
    "lenet": (lambda: LeNet(3, 5), lambda: (images((2, 32, 32, 3)),)),
    "lenet_grey": (lambda: LeNet(1, 4), lambda: (images((2, 28, 28, 1)),)),
    "convnet": (Convnet, lambda: (images((2, 32, 32, 3)),)),
    "cnn3": (cnn3, lambda: (images((2, 28, 28, 1)),)),
    "alexnet": (lambda: AlexNet(False, 16), lambda: (images((1, 224, 224, 3)),)),
    "alexnet_small": (lambda: AlexNet(True, 16), lambda: (images((2, 32, 32, 3)),)),
    "resnet18": (lambda: ResNet(18, 4), lambda: (images((2, 64, 64, 3)),)),
    "resnet34": (lambda: ResNet(34, 4, small=True), lambda: (images((2, 32, 32, 3)),)),
    "resnet50": (lambda: ResNet(50, 4), lambda: (images((2, 64, 64, 3)),)),
    "resnet50_v1": (lambda: ResNet(50, 4, v1=True), lambda: (images((2, 64, 64, 3)),)),
    "lstm": (LstmClassifier, lambda: (words((3, 7), 20),)),
    "lstm_next": (LstmLanguageModel, lambda: (words((3, 7), 20),)),
    "gpt2": (Gpt2, lambda: (words((2, 9), 40),)),
    "bert_classify": (BertClassifier, bert_input),
    "bert_mask": (BertMasked, bert_input),
}


def greedy(net, prompt, count):
    text = list(prompt)
    for _ in range(count):
        text.append(int(net(torch.tensor([text]))[0, -1].argmax()))
    return text


def main():
    torch.set_default_dtype(torch.float64)
    os.makedirs(HERE, exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        make, data = MODELS[name]
        net = make().double().eval()
        shapes, tied = {}, set()
        with torch.no_grad():
            for key, p in net.state_dict().items():
                shapes[key] = list(p.shape)
                if not key.endswith("num_batches_tracked") and p.data_ptr() not in tied:  # the first name counts
                    tied.add(p.data_ptr())
                    p.copy_(torch.from_numpy(value(key, tuple(p.shape))))
            out = net(*data())
            result = {"model": name, "torch": torch.__version__, "state": shapes, "shape": list(out.shape),
                      "output": out.reshape(-1).tolist()}
            if name == "gpt2":
                result["text"] = greedy(net, [3, 1, 4], 8)
        with open(os.path.join(HERE, name + ".json"), "w") as f:
            state = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in result.pop("state").items())
            f.write(json.dumps(result)[:-1] + f',\n"state": {{\n{state}}}}}\n')
        print(f"{name}: {len(shapes)} tensors, outputs up to {out.abs().max().item():.3f}")


if __name__ == "__main__":
    main()
