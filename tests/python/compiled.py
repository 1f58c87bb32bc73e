# SPDX-License-Identifier: Apache-2.0
"""What the tests of torch.compile share: functions and models are compiled for the
device, and compared with eager on the CPU."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map


def compiled(function: Callable, **options: Any) -> Callable:
    return torch.compile(function, backend="neuron", fullgraph=True, **options)


def to_neuron(values: Any) -> Any:
    """Copies of the tensors among ``values``, which require the same gradients."""

    def copy_of(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return x.detach().to("neuron").requires_grad_(x.requires_grad)

    return tree_map(copy_of, values)


def assert_close(
    actual: Any, expected: Any, tolerance: float = 1e-4, **options: Any
) -> None:
    torch.testing.assert_close(
        actual,
        expected,
        rtol=tolerance,
        atol=tolerance,
        check_device=False,
        **options,
    )


def check_training(
    reference: nn.Module,
    inputs: dict[str, Any],
    compile: Callable[[nn.Module], Callable] = compiled,
    result: Callable[[Any], Tensor] = lambda out: out,
    tolerance: float = 1e-5,
) -> None:
    """One step: the result, the gradients of parameters and inputs, the buffers.

    Args:
        inputs: by name.
        result: takes the tensor that has gradients out of what the model gives.
    """
    model = copy.deepcopy(reference).to("neuron")
    moved = to_neuron(inputs)
    expected = result(reference(**inputs))
    actual = result(compile(model)(**moved))
    assert_close(actual, expected, tolerance)
    seed = torch.randn_like(expected)
    expected.backward(seed)
    actual.backward(seed.to("neuron"))
    for (name, p), q in zip(
        reference.named_parameters(), model.parameters(), strict=True
    ):
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            _assert_gradients_close(name, q.grad, p.grad, tolerance)
    for name, x in inputs.items():
        if isinstance(x, Tensor) and x.requires_grad:
            _assert_gradients_close(name, moved[name].grad, x.grad, tolerance)
    assert_close(list(model.buffers()), list(reference.buffers()), tolerance)


def _assert_gradients_close(
    name: str, actual: Tensor, expected: Tensor, tolerance: float
) -> None:
    """Relative to the largest element, if that is above one."""
    scale = expected.abs().max().clamp_min(1).item()
    assert_close(
        actual / scale, expected / scale, tolerance, msg=lambda m: f"{name}: {m}"
    )


def llama(**config: Any) -> nn.Module:
    """A small model that writes, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 64,
    }
    return LlamaForCausalLM(LlamaConfig(**(sizes | config)))
