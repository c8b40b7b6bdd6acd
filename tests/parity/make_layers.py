#!/usr/bin/env python3
"""Fixture for layers_test.cpp: outputs and gradients of layers in PyTorch, in f64.

  python3 tests/parity/make_layers.py       # needs numpy and torch 2; writes layers.json beside this file

Images and sequences are channels-last arrays, which PyTorch gets channels-first. Parameters, in the order of their
names, are wave(shape, 0.1 · place, 0.5), inputs wave(shape, 0.3 + 0.2 · place).
"""
import torch
from torch import nn
from torch.nn import functional as F

from fixture import digest, gradients, leaf, wave, write

CASES = {}


def add(name, module, shapes, run=None):
    module.double()
    named = sorted(module.named_parameters())
    with torch.no_grad():
        for i, (_, p) in enumerate(named):
            p.copy_(torch.tensor(wave(p.shape, 0.1 * i, 0.5)))
    inputs = [leaf(wave(shape, 0.3 + 0.2 * i)) for i, shape in enumerate(shapes)]
    outputs = (run or (lambda m, *x: m(*x)))(module, *inputs)
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
    CASES[name] = {"parameters": [n for n, _ in named], "outputs": [digest(y) for y in outputs],
                   "grads": gradients(outputs, inputs + [p for _, p in named])}


def first(x):  # channels first
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def channels_last(m, x):
    return last(m(first(x)))


# Convolutions and pooling.
IMAGE, LINE = (2, 6, 7, 4), (2, 9, 4)
add("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), [LINE], channels_last)
add("conv1d_dilated", nn.Conv1d(4, 3, 3, dilation=2, bias=False), [LINE], channels_last)
add("conv2d", nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2), [IMAGE], channels_last)
add("depthwise_conv2d", nn.Conv2d(4, 8, 3, padding=1, stride=2, groups=4), [IMAGE], channels_last)
add("conv_transpose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), [IMAGE],
    channels_last)
add("conv_transpose2d_dilated",
    nn.ConvTranspose2d(4, 2, (3, 2), stride=(1, 2), padding=(1, 0), dilation=(2, 1), bias=False), [IMAGE],
    channels_last)
add("conv_transpose1d", nn.ConvTranspose1d(4, 3, 4, stride=3, padding=1, output_padding=2), [LINE], channels_last)
add("max_pool1d", nn.MaxPool1d(3, 2, 1), [LINE], channels_last)
add("avg_pool1d", nn.AvgPool1d(3, 2, 1), [LINE], channels_last)
add("max_pool2d", nn.MaxPool2d((3, 2), (2, 1), (1, 0)), [IMAGE], channels_last)
add("avg_pool2d", nn.AvgPool2d((3, 2), (2, 1), (1, 0)), [IMAGE], channels_last)
add("avg_pool2d_of_elements", nn.AvgPool2d(3, 2, 1, count_include_pad=False), [IMAGE], channels_last)
add("global_avg_pool", nn.AdaptiveAvgPool2d(1), [IMAGE], lambda m, x: m(first(x)).flatten(1))
add("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(4), [LINE], channels_last)
add("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(4), [LINE], channels_last)
add("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((3, 2)), [IMAGE], channels_last)
add("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((4, 3)), [IMAGE], channels_last)
add("global_max_pool", nn.AdaptiveMaxPool2d(1), [IMAGE], lambda m, x: m(first(x)).flatten(1))

# Normalisation and activations.
add("group_norm", nn.GroupNorm(2, 4), [IMAGE], channels_last)
add("group_norm_plain", nn.GroupNorm(4, 4, eps=1e-3, affine=False), [LINE], channels_last)
add("rms_norm", nn.RMSNorm(4), [LINE])
add("rms_norm_eps", nn.RMSNorm(4, eps=0.1), [LINE])
add("layer_norm_without_bias", nn.LayerNorm(4, bias=False), [LINE])
add("prelu", nn.PReLU(4), [LINE], channels_last)
# The derivative of PyTorch's own hardsigmoid has 1/6 in f32.
for name, f in {
        "elu": F.elu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1), "hardswish": F.hardswish, "hardtanh": F.hardtanh,
        "leaky_relu": F.leaky_relu,
        "log_sigmoid": F.logsigmoid, "log_softmax": lambda x: F.log_softmax(x, -1), "mish": F.mish, "relu": F.relu,
        "relu6": F.relu6, "selu": F.selu, "sigmoid": torch.sigmoid, "silu": F.silu,
        "softmax": lambda x: F.softmax(x, -1), "softplus": F.softplus, "softsign": F.softsign, "tanh": torch.tanh,
        "exponential": torch.exp}.items():
    add("activation_" + name, nn.Identity(), [(3, 5)], lambda m, x, f=f: f(4 * x))

# Recurrent layers.
STEPS = (5, 2, 3)


def whole(m, x):  # a state as its parts, one after the other
    y, state = m(x)
    return [y, *(state if isinstance(state, tuple) else [state])]


def continued(m, x, *state):
    y, end = m(x, state if len(state) > 1 else state[0])
    return [y, *(end if isinstance(end, tuple) else [end])]


add("rnn_tanh", nn.RNN(3, 4, 2, bidirectional=True), [STEPS], whole)
add("rnn_relu", nn.RNN(3, 4, 2, nonlinearity="relu", bias=False, batch_first=True), [(2, 5, 3), (2, 2, 4)], continued)
add("gru", nn.GRU(3, 4, 2, bidirectional=True), [STEPS], whole)
add("gru_without_bias", nn.GRU(3, 4, 2, bias=False, batch_first=True), [(2, 5, 3), (2, 2, 4)], continued)
add("lstm", nn.LSTM(3, 4, 2, bidirectional=True), [STEPS], whole)
add("lstm_without_bias", nn.LSTM(3, 4, 2, bias=False, batch_first=True, bidirectional=True),
    [(2, 5, 3), (4, 2, 4), (4, 2, 4)], continued)

# Attention; in training mode without dropout, which is the path that has gradients.
SRC, TGT = (2, 4, 8), (2, 3, 8)
PADDING = torch.tensor([[False, False, False, True], [False, False, False, False]])
TGT_PADDING = torch.tensor([[False, False, False], [False, False, True]])
ADDED = torch.tensor(wave((3, 4), 0.7))
HIDDEN = torch.tensor([[False, True, False, False], [False, False, True, False], [True, False, False, False]])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
CAUSAL4 = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
LAYER = dict(dim_feedforward=12, dropout=0.0, batch_first=True)
add("attention_padding", nn.MultiheadAttention(8, 2, batch_first=True), [SRC],
    lambda m, x: m(x, x, x, key_padding_mask=PADDING, need_weights=False)[0])
add("attention_cross", nn.MultiheadAttention(8, 2, bias=False, batch_first=True), [TGT, SRC, SRC],
    lambda m, q, k, v: m(q, k, v, key_padding_mask=PADDING, attn_mask=HIDDEN, need_weights=False)[0])
add("attention_added", nn.MultiheadAttention(8, 2, batch_first=True), [TGT, SRC, SRC],
    lambda m, q, k, v: m(q, k, v, attn_mask=ADDED, need_weights=False)[0])
add("encoder_layer", nn.TransformerEncoderLayer(8, 2, **LAYER), [SRC])
add("encoder_layer_norm_first",
    nn.TransformerEncoderLayer(8, 2, activation="gelu", norm_first=True, bias=False, **LAYER),
    [SRC], lambda m, x: m(x, src_key_padding_mask=PADDING))
add("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, norm_first=True, **LAYER), 2, nn.LayerNorm(8),
                                     enable_nested_tensor=False), [SRC],
    lambda m, x: m(x, mask=CAUSAL4, src_key_padding_mask=PADDING.double() * -1e30))
add("decoder_layer", nn.TransformerDecoderLayer(8, 2, **LAYER), [TGT, SRC],
    lambda m, t, s: m(t, s, tgt_mask=CAUSAL, tgt_key_padding_mask=TGT_PADDING.double() * -1e30,
                      memory_key_padding_mask=PADDING))
add("decoder_layer_norm_first", nn.TransformerDecoderLayer(8, 2, activation="gelu", norm_first=True, **LAYER),
    [TGT, SRC], lambda m, t, s: m(t, s, memory_mask=HIDDEN))
add("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, **LAYER), 2), [TGT, SRC])
add("transformer", nn.Transformer(8, 2, 2, 1, **LAYER), [SRC, TGT],
    lambda m, s, t: m(s, t, tgt_mask=CAUSAL, src_key_padding_mask=PADDING, memory_key_padding_mask=PADDING))


# Positions, by their formulas.
def sinusoidal(length, width):
    angle = torch.arange(length).double()[:, None] * 10000.0 ** (-torch.arange(0, width, 2).double() / width)
    table = torch.zeros(length, width, dtype=torch.float64)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : width // 2]
    return table


class Learned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(9, 8))

    def forward(self, x):
        return x + self.weight[: x.shape[1]]


def rotate(x, interleaved, base=10000.0, start=0):
    """Pairs as complex numbers, turned by their places."""
    depth = x.shape[-1]
    angle = (start + torch.arange(x.shape[2]).double())[:, None] * base ** (-torch.arange(0, depth, 2).double() / depth)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : depth // 2], x[..., depth // 2:])
    y = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    return torch.stack([y.real, y.imag], -1).flatten(-2) if interleaved else torch.cat([y.real, y.imag], -1)


add("sinusoidal_positions", nn.Identity(), [(2, 5, 8)], lambda m, x: x + sinusoidal(5, 8))
add("sinusoidal_positions_odd", nn.Identity(), [(2, 5, 7)], lambda m, x: x + sinusoidal(5, 7))
add("learned_positions", Learned(), [(2, 5, 8)])
add("rotary", nn.Identity(), [(2, 3, 5, 6)], lambda m, x: rotate(x, False))
add("rotary_interleaved", nn.Identity(), [(2, 3, 5, 6)], lambda m, x: rotate(x, True, 500.0, 7))

write("layers.json", CASES)
