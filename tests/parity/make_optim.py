#!/usr/bin/env python3
"""Fixture for optim_parity_test.cpp: optimisers, schedules, clipping and averages in f64.

  python3 tests/parity/make_optim.py            # needs numpy and torch 2.9 or later; writes optim.json beside this file
  python3 tests/parity/make_optim.py --keras    # also checks the numpy versions against Keras 3, where it is installed

Numbers are PyTorch's; what it has not (Lion, LAMB, averaging momentum, Keras's formulas) is computed by the numpy
versions below. Parameters and gradients are waves, as in tests/waves.h: the gradient of parameter i at step t (from 1)
is p/2 + wave(shape, 0.3·t + i).
"""
import json
import math
import os
import sys

import numpy as np
import torch
from torch.optim import lr_scheduler as schedulers
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS = 20
SHAPES = {"tall.weight": (5, 3), "tall.bias": (5,), "wide.weight": (3, 6)}
HERE = os.path.dirname(os.path.abspath(__file__))


def wave(shape, phase):
    i = np.arange(math.prod(shape), dtype=np.float64)
    return (np.sin(0.7 * i + phase) + 0.3 * np.cos(2.3 * i + phase)).reshape(shape)


def start():
    return {name: wave(shape, 0.1 * (i + 1)) for i, (name, shape) in enumerate(SHAPES.items())}


def gradient(i, name, p, t):
    return 0.5 * p + wave(SHAPES[name], 0.3 * t + i)


def rates(lr, decay):
    return [lr * decay**t for t in range(STEPS)]


# PyTorch.

def train_torch(make, decay):
    """`make` takes the named parameters and returns optimisers; `decay` multiplies every rate after each step."""
    parameters = {name: torch.nn.Parameter(torch.from_numpy(value)) for name, value in start().items()}
    optimizers = make(parameters)
    for t in range(1, STEPS + 1):
        for i, (name, p) in enumerate(parameters.items()):
            p.grad = torch.from_numpy(gradient(i, name, p.detach().numpy(), t))
        for optimizer in optimizers:
            optimizer.step()
            for group in optimizer.param_groups:
                group["lr"] *= decay
    return {name: p.detach().numpy() for name, p in parameters.items()}


def simple(kind, **options):
    return lambda parameters: [kind(list(parameters.values()), **options)]


def grouped(kind, groups, **options):
    def make(parameters):
        left, lists = dict(parameters), []
        for names, own in groups:
            lists.append({"params": [left.pop(n) for n in names], **own})
        return [kind([{"params": list(left.values())}] + lists, **options)]
    return make


def muon(adam=None, **options):
    """Matrices by Muon, vectors by AdamW. PyTorch iterates in bf16; here in f64, by the same code."""
    def make(parameters):
        torch.Tensor.bfloat16 = lambda x: x.clone()
        matrices = [p for p in parameters.values() if p.ndim == 2]
        vectors = [p for p in parameters.values() if p.ndim != 2]
        return [torch.optim.Muon(matrices, **options), torch.optim.AdamW(vectors, **(adam or {}))]
    return make


# Numpy: a rule takes (state, step, parameter, gradient, lr) and returns the new parameter.

def averaging(momentum=0.9, weight_decay=0.0, nesterov=False):
    def rule(s, t, p, g, lr):
        g = g + weight_decay * p
        v = s["v"] = momentum * s.get("v", 0.0) + (1 - momentum) * g
        return p - lr * (momentum * v + (1 - momentum) * g if nesterov else v)
    return rule


def lion(beta1=0.9, beta2=0.99, weight_decay=0.0):
    def rule(s, t, p, g, lr):
        m = s.get("m", np.zeros_like(p))
        s["m"] = beta2 * m + (1 - beta2) * g
        return p - lr * (np.sign(beta1 * m + (1 - beta1) * g) + weight_decay * p)
    return rule


def moments(s, t, g, beta1, beta2):
    m = s["m"] = beta1 * s.get("m", 0.0) + (1 - beta1) * g
    v = s["v"] = beta2 * s.get("v", 0.0) + (1 - beta2) * g * g
    return m, v, 1 - beta1**t, 1 - beta2**t


def trust(p, change):
    a, b = math.sqrt((p * p).sum()), math.sqrt((change * change).sum())
    return a / b if a > 0 and b > 0 else 1.0


def lamb(beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
    def rule(s, t, p, g, lr):
        m, v, c1, c2 = moments(s, t, g, beta1, beta2)
        change = (m / c1) / (np.sqrt(v / c2) + eps) + weight_decay * p
        return p - lr * trust(p, change) * change
    return rule


def keras_lamb(beta_1=0.9, beta_2=0.999, epsilon=1e-7, weight_decay=0.0):
    def rule(s, t, p, g, lr):
        p = p - p * weight_decay * lr
        m, v, c1, c2 = moments(s, t, g, beta_1, beta_2)
        change = (m / c1) / (np.sqrt(v / c2) + epsilon)
        return p - trust(p, change) * lr * change
    return rule


def keras_sgd(momentum=0.0, nesterov=False, weight_decay=0.0):
    def rule(s, t, p, g, lr):
        p = p - p * weight_decay * lr
        if momentum == 0:
            return p - lr * g
        m = s["m"] = momentum * s.get("m", 0.0) - lr * g
        return p + (momentum * m - lr * g if nesterov else m)
    return rule


def keras_adagrad(initial_accumulator_value=0.1, epsilon=1e-7, weight_decay=0.0):
    def rule(s, t, p, g, lr):
        p = p - p * weight_decay * lr
        a = s["a"] = s.get("a", initial_accumulator_value) + g * g
        return p - lr * g / np.sqrt(a + epsilon)
    return rule


def keras_rmsprop(rho=0.9, momentum=0.0, epsilon=1e-7, centered=False, weight_decay=0.0):
    def rule(s, t, p, g, lr):
        p = p - p * weight_decay * lr
        v = s["v"] = rho * s.get("v", 0.0) + (1 - rho) * g * g
        if centered:
            a = s["a"] = rho * s.get("a", 0.0) + (1 - rho) * g
            v = v - a * a
        change = lr * g / np.sqrt(v + epsilon)
        if momentum > 0:
            change = s["m"] = momentum * s.get("m", 0.0) + change
        return p - change
    return rule


def keras_adam(beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, weight_decay=0.0):
    def rule(s, t, p, g, lr):
        p = p - p * weight_decay * lr
        m, v, c1, c2 = moments(s, t, g, beta_1, beta_2)
        if amsgrad:
            v = s["max"] = np.maximum(s.get("max", 0.0), v)
        return p - m * (lr * math.sqrt(c2) / c1) / (np.sqrt(v) + epsilon)
    return rule


def keras_lion(weight_decay=0.0, **options):
    inner = lion(**options)

    def rule(s, t, p, g, lr):
        return inner(s, t, p - p * weight_decay * lr, g, lr)
    return rule


def keras_muon(momentum=0.95, nesterov=True, ns_steps=5, weight_decay=0.004, adam_weight_decay=0.004, rms_rate=0.2,
               adam_lr_ratio=1.0):
    a, b, c = 3.4445, -4.7750, 2.0315
    adam = keras_adam()

    def rule(s, t, p, g, lr):
        if p.ndim != 2:
            return adam(s, t, p - p * adam_weight_decay * lr, g, lr * adam_lr_ratio)
        p = p - p * weight_decay * lr
        m = s["m"] = momentum * s.get("m", 0.0) + g
        x = g + momentum * m if nesterov else m
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (math.sqrt((x * x).sum()) + 1e-7)
        for _ in range(ns_steps):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        x = x.T if tall else x
        return p - lr * x * (math.sqrt(max(x.shape)) * rms_rate)
    return rule


def train_numpy(rule, lr, decay):
    parameters, states = start(), {name: {} for name in SHAPES}
    for t, rate in enumerate(rates(lr, decay), 1):
        for i, name in enumerate(SHAPES):
            parameters[name] = rule(states[name], t, parameters[name], gradient(i, name, parameters[name], t), rate)
    return parameters


# Cases: what optim::make is given, and who computes it.

def default_rate(kind):
    return 0.01 if kind == "SGD" else 0.001


def cases():
    """(title, name, options, groups, decay of the rate, result)"""
    out, keras = [], []

    def by_torch(title, name, options, make, groups=(), decay=1.0):
        out.append((title, name, options, groups, decay, train_torch(make, decay)))

    def by_numpy(title, name, options, rule, lr, decay=1.0):
        out.append((title, name, options, (), decay, train_numpy(rule, lr, decay)))

    def as_keras(title, name, kind, rule, decay=1.0, own=None, **options):
        """`own`: options of ours that Keras has under another name or form."""
        lr = options.pop("learning_rate", default_rate(kind))
        given = dict(options if own is None else own)
        if lr != default_rate(kind):
            given["learning_rate"] = lr
        by_numpy(title, name, given, rule(**options), lr, decay)
        keras.append((title, kind, lr, options, decay, out[-1][-1]))

    o = torch.optim
    by_torch("gradient descent", "gradient_descent", {"lr": 0.1}, simple(o.SGD, lr=0.1))
    by_torch("sgd", "sgd", {}, simple(o.SGD))
    by_torch("sgd, decay", "pytorch:sgd", {"lr": 0.1, "weight_decay": 0.1}, simple(o.SGD, lr=0.1, weight_decay=0.1))
    by_torch("momentum", "momentum", {"lr": 0.1}, simple(o.SGD, lr=0.1, momentum=0.9), decay=0.9)
    by_torch("momentum, dampening", "sgd", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05},
             simple(o.SGD, lr=0.1, momentum=0.8, dampening=0.3, weight_decay=0.05))
    by_torch("nesterov", "nesterov", {"lr": 0.1, "weight_decay": 0.1},
             simple(o.SGD, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True), decay=0.9)
    by_numpy("averaging momentum", "averaging_momentum", {"lr": 0.1, "weight_decay": 0.1},
             averaging(0.9, 0.1), 0.1, 0.9)
    by_numpy("averaging momentum, nesterov", "averaging_momentum", {"lr": 0.1, "momentum": 0.8, "nesterov": True},
             averaging(0.8, 0.0, True), 0.1)

    by_torch("adagrad", "adagrad", {}, simple(o.Adagrad))
    by_torch("adagrad, options", "adagrad",
             {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "initial_accumulator": 0.3, "eps": 1e-3},
             simple(o.Adagrad, lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-3))
    by_torch("rmsprop", "rmsprop", {}, simple(o.RMSprop))
    by_torch("rmsprop, momentum", "rmsprop", {"momentum": 0.9, "weight_decay": 0.1, "alpha": 0.9, "eps": 1e-3},
             simple(o.RMSprop, momentum=0.9, weight_decay=0.1, alpha=0.9, eps=1e-3), decay=0.9)
    by_torch("rmsprop, centered", "rmsprop", {"centered": True}, simple(o.RMSprop, centered=True))
    by_torch("rmsprop, centered with momentum", "rmsprop", {"centered": True, "momentum": 0.5},
             simple(o.RMSprop, centered=True, momentum=0.5))

    by_torch("adam", "adam", {}, simple(o.Adam))
    by_torch("adam, options", "adam", {"lr": 0.1, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.1},
             simple(o.Adam, lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1), decay=0.9)
    by_torch("adam, amsgrad", "adam", {"lr": 0.1, "beta2": 0.6, "amsgrad": True, "weight_decay": 0.1},
             simple(o.Adam, lr=0.1, betas=(0.9, 0.6), amsgrad=True, weight_decay=0.1))
    by_torch("adamw", "adamw", {}, simple(o.AdamW))
    by_torch("adamw, amsgrad", "adamw", {"lr": 0.1, "beta2": 0.6, "amsgrad": True, "weight_decay": 0.1},
             simple(o.AdamW, lr=0.1, betas=(0.9, 0.6), amsgrad=True, weight_decay=0.1), decay=0.9)
    by_torch("adamw, groups", "adamw", {"lr": 0.1, "weight_decay": 0.1},
             grouped(o.AdamW, [(["tall.bias"], {"weight_decay": 0.0}), (["wide.weight"], {"lr": 0.02})], lr=0.1,
                     weight_decay=0.1),
             groups=[{"names": ["*.bias"], "weight_decay": 0}, {"names": ["w?de.*"], "lr": 0.02}], decay=0.9)
    by_torch("momentum, groups", "momentum", {"lr": 0.1, "weight_decay": 0.1},
             grouped(o.SGD, [(["tall.weight", "tall.bias"], {"lr": 0.05, "weight_decay": 0.3})], lr=0.1, momentum=0.9,
                     weight_decay=0.1),
             groups=[{"names": ["tall.*"], "lr": 0.05, "weight_decay": 0.3}])

    by_numpy("lion", "lion", {}, lion(), 1e-4)
    by_numpy("lion, options", "lion", {"lr": 0.03, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.1},
             lion(0.8, 0.9, 0.1), 0.03, 0.9)
    by_numpy("lamb", "lamb", {}, lamb(), 1e-3)
    by_numpy("lamb, options", "lamb", {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.1},
             lamb(0.8, 0.95, 1e-3, 0.1), 0.05, 0.9)

    by_torch("muon", "muon", {}, muon())
    by_torch("muon, options", "muon",
             {"lr": 0.02, "weight_decay": 0.05, "momentum": 0.8, "nesterov": False, "ns_steps": 3, "ns_a": 3.0,
              "ns_b": -4.0, "ns_c": 1.8, "adjust_lr": "match_rms_adamw", "adam_lr_ratio": 0.5, "adam_beta2": 0.95,
              "adam_weight_decay": 0.2},
             muon(lr=0.02, weight_decay=0.05, momentum=0.8, nesterov=False, ns_steps=3, ns_coefficients=(3, -4, 1.8),
                  adjust_lr_fn="match_rms_adamw",
                  adam={"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.2}), decay=0.9)

    as_keras("keras sgd", "keras:sgd", "SGD", keras_sgd)
    as_keras("keras sgd, decay", "keras:sgd", "SGD", keras_sgd, learning_rate=0.1, weight_decay=0.1)
    as_keras("keras momentum", "keras:momentum", "SGD", keras_sgd, 0.9, {"weight_decay": 0.1}, momentum=0.9,
             weight_decay=0.1)
    as_keras("keras nesterov", "keras:nesterov", "SGD", keras_sgd, 0.9, {"momentum": 0.8}, momentum=0.8,
             nesterov=True)
    as_keras("keras adagrad", "keras:adagrad", "Adagrad", keras_adagrad)
    as_keras("keras adagrad, options", "keras:adagrad", "Adagrad", keras_adagrad, 0.9, learning_rate=0.1,
             initial_accumulator_value=0.3, epsilon=1e-3, weight_decay=0.1)
    as_keras("keras rmsprop", "keras:rmsprop", "RMSprop", keras_rmsprop)
    as_keras("keras rmsprop, options", "keras:rmsprop", "RMSprop", keras_rmsprop, 0.9, learning_rate=0.02, rho=0.8,
             momentum=0.5, epsilon=1e-3, centered=True, weight_decay=0.1)
    as_keras("keras adam", "keras:adam", "Adam", keras_adam)
    as_keras("keras adam, options", "keras:adam", "Adam", keras_adam, 0.9, learning_rate=0.1, beta_1=0.8, beta_2=0.6,
             epsilon=1e-3, amsgrad=True, weight_decay=0.1)
    as_keras("keras adamw", "keras:adamw", "AdamW", keras_adam, own={}, weight_decay=0.004)
    as_keras("keras lion", "keras:lion", "Lion", keras_lion, weight_decay=0.1)
    as_keras("keras lamb", "keras:lamb", "Lamb", keras_lamb)
    as_keras("keras lamb, options", "keras:lamb", "Lamb", keras_lamb, 0.9, learning_rate=0.05, beta_1=0.8, beta_2=0.95,
             epsilon=1e-3, weight_decay=0.1)
    as_keras("keras muon", "keras:muon", "Muon", keras_muon)
    as_keras("keras muon, options", "keras:muon", "Muon", keras_muon, 0.9, learning_rate=0.02, momentum=0.8,
             nesterov=False, ns_steps=3, weight_decay=0.05, adam_weight_decay=0.2, adam_lr_ratio=0.5)
    return out, keras


def check_keras(keras_cases):
    """The numpy versions against Keras's own optimisers."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    keras.config.set_floatx("float64")
    keras.config.set_epsilon(1e-7)
    for title, kind, lr, options, decay, wanted in keras_cases:
        variables = [keras.Variable(value, dtype="float64", name=name.replace(".", "_"))
                     for name, value in start().items()]
        default = float(getattr(keras.optimizers, kind)().learning_rate)
        assert abs(default - default_rate(kind)) < 1e-9, title
        optimizer = getattr(keras.optimizers, kind)(learning_rate=lr, **options)
        optimizer.build(variables)
        for t, rate in enumerate(rates(lr, decay), 1):
            optimizer.learning_rate = rate
            grads = [keras.ops.convert_to_tensor(gradient(i, name, keras.ops.convert_to_numpy(v), t), dtype="float64")
                     for i, (name, v) in enumerate(zip(SHAPES, variables))]
            optimizer.apply(grads, variables)
        worst = max(np.abs(keras.ops.convert_to_numpy(v) - w).max() for v, w in zip(variables, wanted.values()))
        print(f"{title}: at most {worst:.1e} from Keras {keras.__version__}")
        assert worst < 2e-9, title  # Keras's Muon takes a root in f32; the others are within 1e-14


# Schedules.

def follow(lr, make, steps=100, every=1):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], lr=lr)
    scheduler, values = make(optimizer), []
    for t in range(steps):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (t + 1) % every == 0 and t + 1 < steps:
            scheduler.step()
    return values


def warmed(optimizer, steps, begin, after):
    rise = schedulers.LambdaLR(optimizer, lambda t: begin + (1 - begin) * min(t / steps, 1))
    return schedulers.SequentialLR(optimizer, [rise, after(optimizer)], [steps])


def schedules():
    s = schedulers
    rows = [
        ("constant", 0.1, {}, lambda o: s.ConstantLR(o, 1.0, 1)),
        ("step", 0.1, {"size": 7}, lambda o: s.StepLR(o, 7)),
        ("step", 0.2, {"size": 30, "gamma": 0.5}, lambda o: s.StepLR(o, 30, 0.5)),
        ("multi_step", 0.1, {"milestones": [10, 30, 31, 80], "gamma": 0.3},
         lambda o: s.MultiStepLR(o, [10, 30, 31, 80], 0.3)),
        ("exponential", 0.1, {"gamma": 0.97}, lambda o: s.ExponentialLR(o, 0.97)),
        ("cosine", 0.1, {"steps": 99}, lambda o: s.CosineAnnealingLR(o, 99)),
        ("cosine", 0.1, {"steps": 150, "min": 0.01}, lambda o: s.CosineAnnealingLR(o, 150, 0.01)),
        ("cosine_restarts", 0.1, {"steps": 10}, lambda o: s.CosineAnnealingWarmRestarts(o, 10)),
        ("cosine_restarts", 0.1, {"steps": 7, "multiplier": 2, "min": 0.01},
         lambda o: s.CosineAnnealingWarmRestarts(o, 7, 2, 0.01)),
        ("cosine_restarts", 0.1, {"steps": 4, "multiplier": 3}, lambda o: s.CosineAnnealingWarmRestarts(o, 4, 3)),
        ("polynomial", 0.1, {"steps": 60, "power": 2}, lambda o: s.PolynomialLR(o, 60, 2)),
        ("polynomial", 0.1, {"steps": 99, "power": 0.5}, lambda o: s.PolynomialLR(o, 99, 0.5)),
        ("linear", 0.1, {"steps": 50, "end": 0.025}, lambda o: s.LinearLR(o, 1.0, 0.25, 50)),
        ("one_cycle", 0.1, {"steps": 100}, lambda o: s.OneCycleLR(o, 0.1, 100, cycle_momentum=False)),
        ("one_cycle", 0.2, {"steps": 100, "peak": 0.17, "div": 10, "final_div": 100, "straight": True},
         lambda o: s.OneCycleLR(o, 0.2, 100, pct_start=0.17, div_factor=10, final_div_factor=100,
                                anneal_strategy="linear", cycle_momentum=False)),
        ("one_cycle", 0.1, {"steps": 100, "peak": 0.4, "three_phase": True},
         lambda o: s.OneCycleLR(o, 0.1, 100, pct_start=0.4, three_phase=True, cycle_momentum=False)),
        ("cosine", 0.1, {"steps": 90, "warmup": 10},
         lambda o: warmed(o, 10, 0.0, lambda o: s.CosineAnnealingLR(o, 90))),
        ("exponential", 0.1, {"gamma": 0.9, "warmup": 20, "warmup_start": 0.25},
         lambda o: warmed(o, 20, 0.25, lambda o: s.ExponentialLR(o, 0.9))),
    ]
    out = [{"name": name, "lr": lr, "options": options, "values": follow(lr, make)}
           for name, lr, options, make in rows]
    out.append({"name": "step", "lr": 0.1, "options": {"size": 4, "gamma": 0.5, "every": 5},
                "values": follow(0.1, lambda o: s.StepLR(o, 4, 0.5), every=5)})
    sequence = follow(0.1, lambda o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 1000), s.ExponentialLR(o, 0.9), s.StepLR(o, 10)], [20, 60]))
    return out, sequence


def plateaus():
    measured = [round(float(v), 6) for v in 1 / (1 + 0.2 * np.arange(60)) + 0.05 * wave((60,), 0.4)]
    out = []
    for ours, theirs in [
        ({"patience": 2}, {"patience": 2}),
        ({"factor": 0.5, "patience": 1, "cooldown": 3, "min_lr": 1e-3},
         {"factor": 0.5, "patience": 1, "cooldown": 3, "min_lr": 1e-3}),
        ({"larger_is_better": True, "patience": 4, "threshold": 0.02, "absolute": True},
         {"mode": "max", "patience": 4, "threshold": 0.02, "threshold_mode": "abs"}),
        ({"larger_is_better": True, "patience": 0, "factor": 0.7, "threshold": 0.01},
         {"mode": "max", "patience": 0, "factor": 0.7, "threshold": 0.01}),
        ({"patience": 0, "threshold": 0.01, "absolute": True, "eps": 1e-5},
         {"patience": 0, "threshold": 0.01, "threshold_mode": "abs", "eps": 1e-5}),
    ]:
        optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]},
                                     {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": 0.05}], lr=0.1)
        scheduler, values = schedulers.ReduceLROnPlateau(optimizer, **theirs), []
        for m in measured:
            scheduler.step(m)
            values.append([group["lr"] for group in optimizer.param_groups])
        out.append({"options": ours, "values": values})
    return {"measured": measured, "cases": out}


# Clipping and averages.

def gradients():
    return [torch.from_numpy(wave(shape, 0.5 + i)) for i, shape in enumerate(SHAPES.values())]


def clips():
    out = []
    for limit, order in [(1.0, 2.0), (100.0, 2.0), (0.5, 1.0), (0.5, math.inf), (2.0, 3.0)]:
        parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients()]
        for p, g in zip(parameters, gradients()):
            p.grad = g
        norm = torch.nn.utils.clip_grad_norm_(parameters, limit, order)
        out.append({"by": "norm", "limit": limit, "order": "inf" if math.isinf(order) else order, "norm": norm.item(),
                    "grads": [p.grad.reshape(-1).tolist() for p in parameters]})
    parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients()]
    for p, g in zip(parameters, gradients()):
        p.grad = g
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    torch.nn.utils.clip_grad_value_(parameters, 0.4)
    out.append({"by": "value", "limit": 0.4, "norm": norm.item(),
                "grads": [p.grad.reshape(-1).tolist() for p in parameters]})
    each = [g.numpy() * (2.0 / max(math.sqrt((g.numpy() ** 2).sum()), 2.0)) for g in gradients()]  # Keras's clipnorm
    out.append({"by": "each norm", "limit": 2.0, "norm": norm.item(), "grads": [g.reshape(-1).tolist() for g in each]})
    return out


def averages(decay):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.ps = torch.nn.ParameterList([torch.from_numpy(v) for v in start().values()])

    model = Model()
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for t in range(1, STEPS + 1):
        for i, (name, p) in enumerate(zip(SHAPES, model.parameters())):
            p.grad = torch.from_numpy(gradient(i, name, p.detach().numpy(), t))
        optimizer.step()
        averaged.update_parameters(model)
    return {"decay": decay, "values": [p.detach().reshape(-1).tolist() for p in averaged.module.parameters()]}


def main():
    torch.set_default_dtype(torch.float64)
    optimizers, keras_cases = cases()
    if "--keras" in sys.argv[1:]:
        check_keras(keras_cases)
    rates_, sequence = schedules()
    rows = [{"title": title, "name": name, "options": options, "groups": list(groups), "decay": decay,
             "final": {key: value.reshape(-1).tolist() for key, value in result.items()}}
            for title, name, options, groups, decay, result in optimizers]

    def lines(items):  # one case a line, for readable differences
        return "[\n" + ",\n".join(json.dumps(item) for item in items) + "]"

    with open(os.path.join(HERE, "optim.json"), "w") as f:
        f.write(f'{{"torch": "{torch.__version__}",\n"optimizers": {lines(rows)},\n"schedules": {lines(rates_)},\n'
                f'"sequence": {json.dumps(sequence)},\n"plateau": {json.dumps(plateaus())},\n"clip": {lines(clips())},\n'
                f'"average": {json.dumps(averages(0.9))}}}\n')
    print(f"{len(rows)} optimisers, {len(rates_)} schedules")


if __name__ == "__main__":
    main()
