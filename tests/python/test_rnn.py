# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU: whole modules against the CPU's, and the programs of their cells,
which have no CPU kernel, against their definition."""

import copy

import pytest
import torch

import torch_neuronx
import xla

aten = torch.ops.aten
BATCH, WIDTH = 3, 5


def lstm_cell(gates, cx):
    i, f, g, o = gates.chunk(4, 1)
    cy = torch.sigmoid(f) * cx + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cy), cy


def gru_cell(inputs, hidden, hx):
    (ir, iz, new), (hr, hz, hn) = inputs.chunk(3, 1), hidden.chunk(3, 1)
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    n = torch.tanh(new + r * hn)
    return (1 - z) * n + z * hx


def run(op, args):
    """The results of the hardware's program."""
    device = [x.to("neuron") if isinstance(x, torch.Tensor) else x for x in args]
    program = torch_neuronx.program(op, *device).legalized("trn2")
    assert program.violations("trn2") == []
    inputs = [x for x in args if isinstance(x, torch.Tensor)]
    return xla.run(program.stablehlo, inputs)


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_cell_program_equals_its_definition(bias):
    x, h = torch.randn(2, BATCH, 4 * WIDTH)
    cx = torch.randn(BATCH, WIDTH, requires_grad=True)
    biases = list(torch.randn(2, 4 * WIDTH)) if bias else [None, None]
    gates = (x + h + (biases[0] + biases[1] if bias else 0)).requires_grad_()
    wanted = lstm_cell(gates, cx)
    hy, cy, workspace = run(
        aten._thnn_fused_lstm_cell.default, (x, h, cx.detach(), *biases)
    )
    torch.testing.assert_close((hy, cy), wanted)

    seeds = torch.randn(2, BATCH, WIDTH)
    grad_gates, grad_cx = torch.autograd.grad(wanted, (gates, cx), tuple(seeds))
    actual = run(
        aten._thnn_fused_lstm_cell_backward_impl.default,
        (*seeds, cx.detach(), cy, workspace, bias),
    )
    torch.testing.assert_close(actual[:2], [grad_gates, grad_cx])
    if bias:
        torch.testing.assert_close(actual[2], grad_gates.sum(0))


@pytest.mark.parametrize("bias", [True, False])
def test_gru_cell_program_equals_its_definition(bias):
    x, h = torch.randn(2, BATCH, 3 * WIDTH)
    hx = torch.randn(BATCH, WIDTH, requires_grad=True)
    biases = list(torch.randn(2, 3 * WIDTH)) if bias else [None, None]
    inputs = (x + (biases[0] if bias else 0)).requires_grad_()
    hidden = (h + (biases[1] if bias else 0)).requires_grad_()
    wanted = gru_cell(inputs, hidden, hx)
    hy, workspace = run(aten._thnn_fused_gru_cell.default, (x, h, hx.detach(), *biases))
    torch.testing.assert_close(hy, wanted)

    seed = torch.randn(BATCH, WIDTH)
    grads = torch.autograd.grad(wanted, (inputs, hidden, hx), seed)
    actual = run(aten._thnn_fused_gru_cell_backward.default, (seed, workspace, bias))
    torch.testing.assert_close(actual[:3], list(grads))
    if bias:
        torch.testing.assert_close(actual[3:], [g.sum(0) for g in grads[:2]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_module_equals_cpu(kind, dtype, no_fallback):
    cpu = kind(6, 7, num_layers=2, bidirectional=True, batch_first=True).to(dtype)
    neuron = copy.deepcopy(cpu).to("neuron")
    x = torch.randn(4, 9, 6, dtype=dtype)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    outputs = [cpu(x)[0], neuron(x.to("neuron"))[0]]
    torch.testing.assert_close(outputs[1].cpu(), outputs[0], **tolerance)
    for output in outputs:
        output.float().square().mean().backward()
    for a, w in zip(neuron.parameters(), cpu.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), w.grad, **tolerance)


def test_second_derivative_equals_cpu():
    gradients = []
    for device in ("cpu", "neuron"):
        torch.manual_seed(0)
        cell = torch.nn.LSTMCell(3, 4).to(device)
        x = torch.randn(2, 3).to(device).requires_grad_()
        hy, cy = cell(x)
        (first,) = torch.autograd.grad((hy * cy).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        gradients.append(second.cpu())
    torch.testing.assert_close(*gradients)
