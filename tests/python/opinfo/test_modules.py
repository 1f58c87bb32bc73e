# SPDX-License-Identifier: Apache-2.0
"""PyTorch's database of modules on the device against the CPU: forward and backward
in float32, in training and in evaluation."""

import copy

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_utils import TestCase
from torch.utils._pytree import tree_leaves, tree_map

from opinfo import compare

# Their training draws random numbers, which are others than the CPU's: only shapes,
# dtypes and strides are compared.
RANDOM = {
    "nn.AlphaDropout",
    "nn.Dropout",
    "nn.Dropout1d",
    "nn.Dropout2d",
    "nn.Dropout3d",
    "nn.FeatureAlphaDropout",
    "nn.FractionalMaxPool2d",
    "nn.FractionalMaxPool3d",
    "nn.RReLU",
}
# Drawn in evaluation too.
ALWAYS_RANDOM = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"}


def leaves(tree, function):
    """The tree with its tensors, as leaves of their graphs, through ``function``."""

    def leaf(x):
        if not isinstance(x, torch.Tensor):
            return x
        return function(x.detach().requires_grad_(x.requires_grad))

    return tree_map(leaf, tree)


def differentiable(tree):
    return [
        x for x in tree_leaves(tree) if isinstance(x, torch.Tensor) and x.requires_grad
    ]


def run(module, args, kwargs, seeds=None):
    """Results, gradients by the inputs and the parameters, buffers, seeds."""
    results = tree_leaves(module(*args, **kwargs))
    outputs = differentiable(results)
    if seeds is None:
        seeds = [torch.randn_like(x) for x in outputs]
    inputs = [*differentiable((args, kwargs)), *module.parameters()]
    gradients = []
    if outputs and inputs:
        gradients = torch.autograd.grad(
            outputs,
            inputs,
            [s.to(x.device) for s, x in zip(seeds, outputs, strict=True)],
            allow_unused=True,
        )
    return results, gradients, list(module.buffers()), seeds


class TestModules(TestCase):
    @modules(module_db, allowed_dtypes=(torch.float32,))
    def test_forward_and_backward(self, device, dtype, module_info, training):
        name = module_info.name
        random = name in ALWAYS_RANDOM or (training and name in RANDOM)
        inputs = module_info.module_inputs_func(
            module_info,
            device="cpu",
            dtype=dtype,
            requires_grad=True,
            training=training,
        )
        for given in inputs:
            if given.forward_input is None:
                continue
            made = given.constructor_input
            cpu = module_info.module_cls(*made.args, **made.kwargs)
            cpu = cpu.to(dtype).train(training)
            args, kwargs = leaves(
                (given.forward_input.args, given.forward_input.kwargs), lambda x: x
            )
            if module_info.is_lazy:
                cpu(*args, **kwargs)
            neuron = copy.deepcopy(cpu).to("neuron")
            device_args, device_kwargs = leaves((args, kwargs), compare.to_device)
            results, gradients, buffers, seeds = run(cpu, args, kwargs)
            actual = run(neuron, device_args, device_kwargs, seeds)
            compare.assert_same(actual[0], results, values=not random)
            self.assertEqual(
                [g is None for g in actual[1]], [g is None for g in gradients]
            )
            for a, w in zip(actual[1], gradients, strict=True):
                if w is not None:
                    compare.assert_same([a], [w], values=not random, strides=False)
            compare.assert_same(actual[2], buffers)


instantiate_device_type_tests(TestModules, globals(), only_for="privateuse1")
