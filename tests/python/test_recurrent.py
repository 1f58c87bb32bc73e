# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and cells on the device, against the CPU; what hardware gets for
their cells, against their formulas."""

import copy

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

import torch_neuronx
import xla

DEVICE = "neuron"
aten = torch.ops.aten


def to_device(tree):
    return tree_map(lambda x: x.to(DEVICE), tree)


def check_module(module: nn.Module, *inputs: torch.Tensor) -> None:
    """Results and gradients of inputs and parameters."""
    results = []
    for device in ("cpu", DEVICE):
        m = copy.deepcopy(module).to(device)
        x = [t.detach().to(device).requires_grad_() for t in inputs]
        outputs = tree_leaves(m(*x))
        sum((y * y.detach().cos()).sum() for y in outputs).backward()
        wanted = [*x, *m.parameters()]
        results.append([*outputs, *(t.grad for t in wanted)])
    expected, actual = results
    for a, e in zip(actual, expected, strict=True):
        assert a.device.type == DEVICE
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cell_equals_cpu(cell, bias, no_fallback):
    check_module(cell(4, 5, bias=bias), torch.randn(3, 4))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "batch_first": True},
        {"num_layers": 2, "bidirectional": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_layer_equals_cpu(layer, options, no_fallback):
    check_module(layer(4, 5, **options), torch.randn(3, 2, 4))


def test_projections_equal_cpu(no_fallback):
    check_module(nn.LSTM(4, 5, proj_size=3), torch.randn(3, 2, 4))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_packed_sequences_equal_cpu(layer):
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer(4, 5)

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2, 1]))
            y, _ = self.layer(packed)
            return nn.utils.rnn.pad_packed_sequence(y)[0]

    check_module(Packed(), torch.randn(3, 3, 4))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
def test_double_backward_equals_cpu(cell):
    module = cell(3, 4)
    x, h = torch.randn(2, 3), torch.randn(2, 4)
    results = []
    for device in ("cpu", DEVICE):
        m = copy.deepcopy(module).to(device)
        y = x.to(device).requires_grad_()
        state = h.to(device)
        out = tree_leaves(m(y, (state, state) if cell is nn.LSTMCell else state))[0]
        (grad,) = torch.autograd.grad(out.square().sum(), y, create_graph=True)
        (second,) = torch.autograd.grad(grad.square().sum(), y)
        results.append(second.cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


# The cells' pointwise halves, as torch.nn documents them.


def lstm(input_gates, hidden_gates, cx, input_bias, hidden_bias):
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy


def gru(input_gates, hidden_gates, hx, input_bias, hidden_bias):
    if input_bias is not None:
        input_gates = input_gates + input_bias
        hidden_gates = hidden_gates + hidden_bias
    ri, zi, ni = input_gates.chunk(3, 1)
    rh, zh, nh = hidden_gates.chunk(3, 1)
    z = (zi + zh).sigmoid()
    n = (ni + (ri + rh).sigmoid() * nh).tanh()
    return ((1 - z) * n + z * hx,)


def operands(gates: int, bias: bool) -> list:
    biases = [torch.randn(gates * 4), torch.randn(gates * 4)] if bias else [None, None]
    return [torch.randn(3, gates * 4), torch.randn(3, gates * 4), torch.randn(3, 4)] + (
        biases
    )


def hardware(op, *args):
    """What the hardware's program gives, run by XLA."""
    on_device = [x.to(DEVICE) if isinstance(x, torch.Tensor) else x for x in args]
    program = torch_neuronx.program(op, *on_device)
    return xla.run(program.stablehlo, [x for x in args if isinstance(x, torch.Tensor)])


def assert_all_close(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_hardware_lstm_cell_is_its_formula(bias):
    args = [x if x is None else x.requires_grad_() for x in operands(4, bias)]
    hy, cy = lstm(*args)
    plain = [x if x is None else x.detach() for x in args]
    *results, workspace = hardware(aten._thnn_fused_lstm_cell.default, *plain)
    assert_all_close(results, [hy.detach(), cy.detach()])
    grad_hy, grad_cy = torch.randn_like(hy), torch.randn_like(cy)
    wanted = [args[0], args[2]] + ([args[3]] if bias else [])
    expected = torch.autograd.grad((hy, cy), wanted, (grad_hy, grad_cy))
    backward = aten._thnn_fused_lstm_cell_backward_impl.default
    saved = (plain[2], results[1], workspace, bias)
    assert_all_close(hardware(backward, grad_hy, grad_cy, *saved), expected)


@pytest.mark.parametrize("bias", [True, False])
def test_hardware_gru_cell_is_its_formula(bias):
    args = [x if x is None else x.requires_grad_() for x in operands(3, bias)]
    (hy,) = gru(*args)
    plain = [x if x is None else x.detach() for x in args]
    result, workspace = hardware(aten._thnn_fused_gru_cell.default, *plain)
    assert_all_close([result], [hy.detach()])
    grad = torch.randn_like(hy)
    wanted = [x for x in args if x is not None]
    expected = torch.autograd.grad(hy, wanted, grad)
    backward = aten._thnn_fused_gru_cell_backward.default
    assert_all_close(hardware(backward, grad, workspace, bias), expected)
