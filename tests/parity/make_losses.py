#!/usr/bin/env python3
"""Fixture for losses_test.cpp: losses and their gradients in PyTorch, in f64.

  python3 tests/parity/make_losses.py       # needs numpy and torch 2; writes losses.json beside this file

Inputs are wave(shape, 0.3 + 0.2 · place). What PyTorch does not have (Keras's losses) is written by its formula.
"""
import torch
from torch.nn import functional as F

from fixture import digest, gradients, leaf, wave, write

CASES = {}


def add(name, run, *shapes):
    inputs = [leaf(wave(shape, 0.3 + 0.2 * i)) for i, shape in enumerate(shapes)]
    y = run(*inputs)
    CASES[name] = {"outputs": [digest(y)], "grads": gradients([y], inputs)}


def t(values):
    return torch.tensor(values)


ROWS = (4, 5)
LABELS, GAPS = t([3, 0, 4, 1]), t([3, -100, 4, -100])
WEIGHTS = torch.tensor(wave((5,), 0.2)).abs() + 0.1
SOFT = torch.softmax(torch.tensor(wave(ROWS, 1.3)), -1)
ONE_HOT = F.one_hot(LABELS, 5).double()
PAIR = (3, 4)

# Cross-entropy.
add("cross_entropy_sum", lambda x: F.cross_entropy(x, LABELS, reduction="sum"), ROWS)
add("cross_entropy_smoothing", lambda x: F.cross_entropy(x, LABELS, label_smoothing=0.2), ROWS)
add("cross_entropy_weights", lambda x: F.cross_entropy(x, LABELS, WEIGHTS), ROWS)
add("cross_entropy_ignore", lambda x: F.cross_entropy(x, GAPS), ROWS)
add("cross_entropy_all", lambda x: F.cross_entropy(x, GAPS, WEIGHTS, label_smoothing=0.1), ROWS)
add("cross_entropy_all_none", lambda x: F.cross_entropy(x, GAPS, WEIGHTS, label_smoothing=0.1, reduction="none"), ROWS)
add("cross_entropy_soft", lambda x: F.cross_entropy(x, SOFT), ROWS)
add("cross_entropy_soft_all", lambda x: F.cross_entropy(x, SOFT, WEIGHTS, label_smoothing=0.1), ROWS)
add("nll", lambda x: F.nll_loss(F.log_softmax(x, -1), GAPS, WEIGHTS), ROWS)
add("nll_none", lambda x: F.nll_loss(F.log_softmax(x, -1), LABELS, reduction="none"), ROWS)


def keras_log(p):
    return (p / p.sum(-1, keepdim=True)).clamp(1e-7, 1 - 1e-7).log()


# 0.1 + |x|: numbers that do not sum to 1, which Keras scales.
add("categorical", lambda x: -(ONE_HOT * keras_log(0.1 + x.abs())).sum(-1).mean(), ROWS)
add("categorical_smoothing", lambda x: -((0.7 * ONE_HOT + 0.3 / 5) * keras_log(0.1 + x.abs())).sum(-1).mean(), ROWS)
add("sparse", lambda x: -(ONE_HOT * keras_log(0.1 + x.abs())).sum(-1).sum(), ROWS)
add("clamped", lambda x: -(ONE_HOT * keras_log(x * x * t([0.0, 1, 1, 0, 1]))).sum(-1), ROWS)

# Yes and no.
TARGET = torch.sigmoid(torch.tensor(wave(PAIR, 0.6))).round()
BETWEEN = torch.sigmoid(torch.tensor(wave(PAIR, 0.6)))
POS = t([0.5, 2.0, 3.0, 1.0]).double()
add("bce_with_logits", lambda x: F.binary_cross_entropy_with_logits(4 * x, TARGET), PAIR)
add("bce_with_logits_zero", lambda x: F.binary_cross_entropy_with_logits(0 * x, TARGET, reduction="sum"), PAIR)
add("bce_with_logits_weights",
    lambda x: F.binary_cross_entropy_with_logits(4 * x, BETWEEN, weight=POS + 1, pos_weight=POS, reduction="none"),
    PAIR)
add("bce", lambda x: F.binary_cross_entropy(torch.sigmoid(4 * x), BETWEEN), PAIR)
add("bce_smoothing", lambda x: F.binary_cross_entropy(torch.sigmoid(x), 0.9 * TARGET + 0.05, reduction="sum"), PAIR)
CLAMPED = t([0.0, 1.0, 0.5, 1.0]).double()
add("bce_clamped",
    lambda x: -(TARGET * (0 * x + CLAMPED).clamp(1e-7, 1 - 1e-7).log() +
                (1 - TARGET) * (1 - (0 * x + CLAMPED).clamp(1e-7, 1 - 1e-7)).log()), PAIR)

# Margins.
SIGNS = 2 * TARGET - 1
add("hinge", lambda x: (1 - SIGNS * x).clamp(min=0).mean(), PAIR)
add("hinge_squared", lambda x: (1 - SIGNS * x).clamp(min=0).square().sum(), PAIR)
add("categorical_hinge",
    lambda x: (((1 - ONE_HOT) * x).max(-1)[0] - (ONE_HOT * x).sum(-1) + 1).clamp(min=0).mean(), ROWS)
add("multi_margin", lambda x: F.multi_margin_loss(x, LABELS), ROWS)
add("multi_margin_squared", lambda x: F.multi_margin_loss(x, LABELS, p=2, margin=0.7, weight=WEIGHTS, reduction="none"),
    ROWS)

# Numbers.
add("mse", F.mse_loss, PAIR, PAIR)
add("mse_half", lambda x, y: 0.5 * F.mse_loss(3 * x, y, reduction="sum"), PAIR, PAIR)
add("mae", lambda x, y: F.l1_loss(3 * x, y), PAIR, PAIR)
add("huber", lambda x, y: F.huber_loss(3 * x, y, delta=0.8), PAIR, PAIR)
add("smooth_l1", lambda x, y: F.smooth_l1_loss(3 * x, y, beta=0.8, reduction="none"), PAIR, PAIR)
add("smooth_l1_zero", lambda x, y: F.smooth_l1_loss(3 * x, y, beta=0.0), PAIR, PAIR)
add("log_cosh", lambda x, y: torch.log(torch.cosh(3 * x - y)).mean(), PAIR, PAIR)

# Distributions.
add("kl_div", lambda x: F.kl_div(F.log_softmax(x, -1), SOFT), ROWS)
add("kl_div_zeros", lambda x: F.kl_div(F.log_softmax(x, -1), ONE_HOT, reduction="sum"), ROWS)
add("kl_div_batch_mean", lambda x, y: F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"), ROWS,
    ROWS)
add("kl_div_log_target", lambda x, y: F.kl_div(F.log_softmax(x, -1), F.log_softmax(y, -1), reduction="none",
                                               log_target=True), ROWS, ROWS)
add("kl_divergence", lambda x: (SOFT * (SOFT / F.softmax(x, -1).clamp(1e-7, 1)).log()).sum(-1).mean(), ROWS)

# Vectors.
add("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=-1), PAIR, PAIR)
add("cosine_embedding", lambda x, y: F.cosine_embedding_loss(x, y, t([1, -1, -1]), margin=-0.3), PAIR, PAIR)
add("triplet", lambda a, p, n: F.triplet_margin_loss(a, p, 2 * n, margin=0.5), PAIR, PAIR, PAIR)
add("triplet_swap", lambda a, p, n: F.triplet_margin_loss(a, p, 2 * n, margin=2.0, p=1.5, swap=True, reduction="none"),
    PAIR, PAIR, PAIR)

# CTC, by logits: PyTorch's gradient is right only behind a log_softmax.
STEPS = (6, 4, 5)
TEXT = t([[1, 2, 2], [3, 1, 4], [4, 0, 0], [2, 2, 2]])
READ, LONG = t([6, 5, 4, 5]), t([3, 2, 1, 3])


def ctc(x, targets=TEXT, read=READ, long=LONG, **options):
    return F.ctc_loss(F.log_softmax(x, -1), targets, read, long, **options)


add("ctc", ctc, STEPS)
add("ctc_none", lambda x: ctc(x, reduction="none"), STEPS)
add("ctc_sum_blank", lambda x: ctc(x, targets=TEXT % 4, blank=4, reduction="sum"), STEPS)
# The last target needs five steps with its repeats, and has four; the third is empty.
add("ctc_zero_infinity",
    lambda x: ctc(x, read=t([6, 5, 4, 4]), long=t([3, 2, 0, 3]), zero_infinity=True, reduction="none"), STEPS)
add("ctc_mean_of_empty", lambda x: ctc(x, long=t([3, 2, 0, 3])), STEPS)

write("losses.json", CASES)
