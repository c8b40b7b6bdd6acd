#!/usr/bin/env python3
"""The fixture of metrics_test.cpp: inputs and what scikit-learn gives for them.

  python3 tests/parity/make_metrics.py       # needs numpy and scikit-learn 1.9; writes metrics.json beside this file

Scores are rounded to a few steps, so that many are equal. NaN is written as null.
"""
import json
import math
import os
import warnings

import numpy as np
from sklearn import metrics as sk

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(9)


def plain(x):
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [plain(v) for v in x]
    if isinstance(x, (np.integer, np.bool_)):
        return int(x)
    if isinstance(x, (float, np.floating)):
        x = float(x)
        return x if math.isfinite(x) else None if math.isnan(x) else "inf" if x > 0 else "-inf"
    return x


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def label_scores(truth, predicted, labels=None, zero_division=0.0):
    kw = dict(labels=labels, zero_division=zero_division)
    out = {"truth": truth, "predicted": predicted, "zero_division": zero_division, "labels": labels}
    for average in ("micro", "macro", "weighted"):
        out[average] = [f(truth, predicted, average=average, **kw)
                        for f in (sk.precision_score, sk.recall_score, sk.f1_score)]
    p, r, f, s = sk.precision_recall_fscore_support(truth, predicted, average=None, **kw)
    out["per_class"] = {"precision": p, "recall": r, "f1": f, "support": s}
    out["report"] = sk.classification_report(truth, predicted, digits=3, **kw)
    out["accuracy"] = sk.accuracy_score(truth, predicted)
    out["confusion"] = sk.confusion_matrix(truth, predicted, labels=labels)
    for by in ("true", "pred", "all"):
        out["confusion_" + by] = sk.confusion_matrix(truth, predicted, labels=labels, normalize=by)
    return out


out = {}

# Decisions of five classes, 3 never predicted, 5 never there.
truth = random.integers(0, 5, 200)
noisy = np.where(random.random(200) < 0.4, random.integers(0, 6, 200), truth)
noisy[noisy == 3] = 2
out["decisions"] = [
    label_scores(truth, noisy),
    label_scores(truth, noisy, zero_division=1.0),
    label_scores(truth, noisy, zero_division=np.nan),
    label_scores(truth, noisy, labels=[4, 0, 7]),
    label_scores([0, 0, 1, 2], [1, 1, 2, 2], labels=[1, 2]),
    label_scores([3, -1, 12, 3, 3], [3, 12, 12, -1, 3]),
]

# Two classes.
truth = (random.random(150) < 0.35).astype(int)
logits = np.round(random.normal(size=150) + 1.4 * (truth - 0.5), 1)
logits[:3] = 0.0  # exactly on the threshold
predicted = (logits > 0).astype(int)
fpr, tpr, thresholds = sk.roc_curve(truth, logits)
fpr_all, tpr_all, thresholds_all = sk.roc_curve(truth, logits, drop_intermediate=False)
p, r, t = sk.precision_recall_curve(truth, logits)
out["binary"] = {
    "truth": truth, "logits": logits,
    "accuracy": sk.accuracy_score(truth, predicted),
    "precision": sk.precision_score(truth, predicted), "recall": sk.recall_score(truth, predicted),
    "f1": sk.f1_score(truth, predicted), "f1_of_0": sk.f1_score(truth, predicted, pos_label=0),
    "roc": [fpr, tpr, thresholds], "roc_all": [fpr_all, tpr_all, thresholds_all], "pr": [p, r, t],
    "auc": sk.roc_auc_score(truth, logits), "average_precision": sk.average_precision_score(truth, logits),
    "log_loss": sk.log_loss(truth, sigmoid(logits)),
    "clipped_log_loss": sk.log_loss([0, 1, 1], [0.0, 0.25, 0.0]),
}

# Four classes: logits, and probabilities in steps of 1/32, many of them equal (as logits they would not be: which of two
# softmax values that should be equal is the larger one is a matter of rounding).
truth = random.permutation(np.repeat([0, 1, 2, 3], [40, 25, 20, 35]))
logits = random.normal(size=(120, 4)) * 1.2 + 1.5 * np.eye(4)[truth]
chance = np.stack([random.multinomial(32, p) for p in softmax(logits)]) / 32


def class_scores(scores, chance):
    return {
        "truth": truth, "scores": scores,
        "accuracy": sk.accuracy_score(truth, scores.argmax(-1)),
        "top": [sk.top_k_accuracy_score(truth, scores, k=k, labels=[0, 1, 2, 3]) for k in (1, 2, 3, 4)],
        "f1_macro": sk.f1_score(truth, scores.argmax(-1), average="macro"),
        "auc": {a: sk.roc_auc_score(truth, chance, multi_class="ovr", average=a)
                for a in ("macro", "weighted", "micro")},
        "auc_ovo": {a: sk.roc_auc_score(truth, chance, multi_class="ovo", average=a) for a in ("macro", "weighted")},
        "average_precision": sk.average_precision_score(truth, chance),
        "log_loss": sk.log_loss(truth, chance),
    }


out["logits"] = class_scores(logits, softmax(logits))
out["probabilities"] = class_scores(chance, chance)

# Numbers: one column, three, and a constant one.
y = random.normal(size=60) * 3 + 100
x = y + random.normal(size=60)
y3 = random.normal(size=(30, 3)) * [1, 10, 100]
x3 = y3 + random.normal(size=(30, 3))
constant = np.stack([np.full(5, 2.0), np.full(5, 3.0), np.arange(5.0)], 1)
met = constant + [[0, 0, 0], [0, 0.5, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
out["numbers"] = [{
    "target": a, "output": b, "mse": sk.mean_squared_error(a, b), "rmse": sk.root_mean_squared_error(a, b),
    "mae": sk.mean_absolute_error(a, b), "r2": sk.r2_score(a, b)} for a, b in ((y, x), (y3, x3), (constant, met))]

with open(os.path.join(HERE, "metrics.json"), "w") as file:
    json.dump(plain(out), file, separators=(",", ":"))
    file.write("\n")
