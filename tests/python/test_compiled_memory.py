# SPDX-License-Identifier: Apache-2.0
"""What compiled graphs hold: no intermediate values, and no saved activation that
their backward passes no longer need."""

import pytest
import torch
from torch import nn

import torch_neuronx
from compiled import compiled
from torch_neuronx.records import read_record

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def deep(width, depth):
    layers = (m for _ in range(depth) for m in (nn.Linear(width, width), nn.Tanh()))
    return nn.Sequential(*layers).to("neuron")


def peak_of(step):
    """Bytes that ``step`` held at most beyond what was there before."""
    torch.neuron.synchronize()
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_allocated()
    result = step()
    torch.neuron.synchronize()
    return torch.neuron.max_memory_allocated() - before, result


def test_graphs_use_less_memory_than_eager():
    """Intermediate values of a chain are not device tensors."""

    def chain(x):
        for _ in range(8):
            x = (x * 1.01).tanh()
        return x

    x = torch.randn(1 << 20, device="neuron")
    function = compiled(chain)
    function(x)
    eager, ours = peak_of(lambda: chain(x))[0], peak_of(lambda: function(x))[0]
    assert ours <= eager


MiB = 1 << 20  # below which stages are not worth their launches


@pytest.mark.parametrize(("batch", "stages"), [(1024, 8), (256, 8), (256, 1), (8, 8)])
def test_peak_of_a_training_step_is_that_of_eager(batch, stages, monkeypatch):
    """The backward graph gives saved activations up while it makes gradients."""
    monkeypatch.setenv("TORCH_NEURONX_GRAPH_STAGES", str(stages))
    torch.manual_seed(0)
    model = deep(256, 16)
    x = torch.randn(batch, 256, device="neuron")

    def train(function):
        model.zero_grad(set_to_none=True)

        def step():
            loss = function(x).square().mean()
            loss.backward()
            return loss.detach()

        peak, loss = peak_of(step)
        return peak, [loss.cpu(), *(p.grad.cpu() for p in model.parameters())]

    function = compiled(model)
    train(function)
    eager_peak, eager = train(model)
    compiled_peak, ours = train(function)
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b)
    if stages == 1:
        assert compiled_peak > 1.5 * eager_peak
    else:
        assert compiled_peak <= eager_peak + MiB


def test_stages_leave_what_others_hold_alone():
    """A second backward pass, and saved tensors that the user holds."""
    torch.manual_seed(0)
    model = deep(256, 16)
    x = torch.randn(1024, 256, device="neuron", requires_grad=True)
    hidden = []

    def forward(x):
        for k, layer in enumerate(model):
            x = layer(x)
            if k == 7:
                kept = x
        return x, kept

    def gradients(function):
        out, kept = function(x)
        hidden.append(kept)
        loss = out.square().mean()
        inputs = [x, *model.parameters()]
        first = torch.autograd.grad(loss, inputs, retain_graph=True)
        return [*first, *torch.autograd.grad(loss, inputs)]

    wanted, actual = gradients(forward), gradients(compiled(forward))
    for a, w in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), w.cpu())
    torch.testing.assert_close(hidden[1].cpu(), hidden[0].cpu())


def test_stages_have_names_of_their_own(tmp_path):
    """None is a recompilation of another; a record holds all of them."""
    model = compiled(deep(512, 8))
    with (
        torch_neuronx.record(tmp_path / "record") as record,
        torch_neuronx.recompiles() as found,
    ):
        model(torch.randn(512, 512, device="neuron")).sum().backward()
    assert record.programs > 2
    assert not [r.name for r in found if "graph" in r.name and r.nearest]
    names = [p.name for p in read_record(tmp_path / "record")]
    stages = [name for name in names if " stage " in name]
    assert len(stages) > 1 and len(set(stages)) == len(stages)


def test_stages_are_printed_and_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "1")
    monkeypatch.setenv("TORCH_NEURONX_DEBUG_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_NEURONX_GRAPH_STAGES", "3")
    model = deep(512, 8)
    compiled(model)(torch.randn(512, 512, device="neuron")).sum().backward()
    (backward,) = tmp_path.glob("*_backward_*.program")
    assert backward.read_text().count("// stage ") == 3
    assert "// stage 3 of 3\n" in backward.read_text()
    monkeypatch.setenv("TORCH_NEURONX_GRAPH_STAGES", "none")
    with pytest.raises(Exception, match="TORCH_NEURONX_GRAPH_STAGES=none"):
        compiled(lambda x: x + 2)(torch.ones(2, device="neuron"))
