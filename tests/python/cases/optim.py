# SPDX-License-Identifier: Apache-2.0
"""Calls of the fused optimizers' steps and of gradient scaling."""

import itertools

import torch

from samples import f, positive

aten = torch.ops.aten
SHAPES = ((3, 4), (5,), ())


def tensors(make) -> list:
    return [make(*shape) for shape in SHAPES]


def steps() -> list:
    return [torch.tensor(float(3 + i)) for i in range(len(SHAPES))]


def scaling(found: float | None) -> dict:
    if found is None:
        return {}
    return {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(found)}


def adam() -> list:
    cases = []
    forms = ((False, False, None), (True, False, 0.0), (False, True, 1.0))
    for name, (amsgrad, maximize, found) in itertools.product(
        ("_fused_adam", "_fused_adamw"), forms
    ):
        maxima = tensors(positive) if amsgrad else []
        states = [tensors(f), tensors(positive), maxima]
        numbers = {
            "lr": torch.tensor(0.1) if maximize else 0.1,
            "beta1": 0.9,
            "beta2": 0.999,
            "weight_decay": 0.1,
            "eps": 1e-8,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        op = getattr(getattr(aten, name), "tensor_lr" if maximize else "default")
        lists = (tensors(f), tensors(f), *states, steps())
        cases.append((op, lists, numbers | scaling(found)))
    return cases


def sgd() -> list:
    cases = []
    for momentum, nesterov, first, found in (
        (0.0, False, True, None),
        (0.9, False, True, None),
        (0.9, False, False, 0.0),
        (0.9, True, False, None),
        (0.9, True, False, 1.0),
    ):
        numbers = {
            "weight_decay": 0.1,
            "momentum": momentum,
            "lr": 0.1,
            "dampening": 0.2 if momentum and not nesterov else 0.0,
            "nesterov": nesterov,
            "maximize": nesterov,
            "is_first_step": first,
        }
        buffers = tensors(f) if momentum else []
        lists = (tensors(f), tensors(f), buffers)
        cases.append((aten._fused_sgd.default, lists, numbers | scaling(found)))
    return cases


def adagrad() -> list:
    numbers = {
        "lr": 0.1,
        "lr_decay": 0.1,
        "weight_decay": 0.1,
        "eps": 1e-8,
        "maximize": False,
    }
    return [
        (
            aten._fused_adagrad.default,
            (tensors(f), tensors(f), tensors(positive), steps()),
            numbers | scaling(found),
        )
        for found in (None, 0.0, 1.0)
    ]


def amp() -> list:
    unscale = aten._amp_foreach_non_finite_check_and_unscale.default
    bad = [f(3), torch.tensor([1.0, float("inf")]), f(2, 2)]
    cases = [
        (unscale, (grads, torch.zeros(1), torch.full((1,), 0.25)))
        for grads in (tensors(f), bad)
    ]
    for found, tracker in itertools.product((0.0, 1.0), (0, 1)):
        count = torch.tensor(tracker, dtype=torch.int32)
        scale = (torch.tensor(16.0), count, torch.tensor([found]))
        cases.append((aten._amp_update_scale.default, (*scale, 2.0, 0.5, 2)))
    return cases


def cases() -> list:
    return adam() + sgd() + adagrad() + amp()
