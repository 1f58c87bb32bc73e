# SPDX-License-Identifier: Apache-2.0
"""Regional compilation: identical layers share one program; and programs grow
linearly in layers without it."""

import copy

import pytest
import torch
import torch.nn.functional as F

from compiled import assert_close, check_training, compiled
from torch_neuronx import graphs
from torch_neuronx.neuron_dynamo_backend import (
    get_dynamo_metrics,
    reset_dynamo_metrics,
)

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.fixture
def programs(monkeypatch):
    """The text of each program that graphs become."""
    texts = []

    def keep(self, captured, program, *others):
        texts.append(program.text)

    monkeypatch.setattr(graphs.Graph, "preserve", keep)
    return texts


class Block(torch.nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)
        self.dropout = dropout

    def forward(self, x):
        h = F.dropout(F.gelu(self.up(self.norm(x))), self.dropout, self.training)
        return x + self.down(h)


class Nested(Block):
    @torch.compiler.nested_compile_region
    def forward(self, x):
        return super().forward(x)


class Model(torch.nn.Module):
    def __init__(self, layers, block=Block, **options):
        super().__init__()
        self.enter = torch.nn.Linear(5, 8)
        self.blocks = torch.nn.ModuleList(block(**options) for _ in range(layers))
        self.leave = torch.nn.Linear(8, 3)

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


def train(model, x):
    out = model(x)
    out.square().sum().backward()
    return [out, *(p.grad for p in model.parameters())]


def check(reference, compile):
    x = torch.randn(4, 5)
    check_training(reference, {"x": x}, compile=compile, tolerance=1e-4)


def test_compiled_blocks_share_their_programs():
    """What ``compile_repeated_blocks`` of Diffusers does."""

    def compile(model):
        for block in model.blocks:
            block.compile(backend="neuron", fullgraph=True)
        return model

    check(Model(6), compile)
    assert get_dynamo_metrics()["graphs"] == 2
    assert get_dynamo_metrics()["programs"] == 2


def test_compile_regions_of_accelerate():
    from accelerate.utils import compile_regions

    check(
        Model(6),
        lambda model: compile_regions(model, backend="neuron", fullgraph=True),
    )
    # The two linear layers around the blocks are compiled by themselves.
    assert get_dynamo_metrics()["programs"] == 2 * 3


def programs_of_nested_regions(layers):
    torch._dynamo.reset()
    reset_dynamo_metrics()
    check(Model(layers, Nested), compiled)
    return get_dynamo_metrics()["programs"]


def test_nested_regions_share_a_program(programs):
    assert programs_of_nested_regions(3) == programs_of_nested_regions(7)
    few, many = programs[: len(programs) // 2], programs[len(programs) // 2 :]
    assert [text.count("\n") for text in few] == [text.count("\n") for text in many]


def test_nested_regions_of_many_sizes_in_buckets():
    reference = Model(4, Nested)
    model = copy.deepcopy(reference).to("neuron")
    forward = compiled(model, options={"buckets": {0: [8, 16]}})
    counts = []
    for n in (5, 12, 7, 16, 3):
        x = torch.randn(n, 5)
        model.zero_grad()
        reference.zero_grad()
        actual = train(forward, x.to("neuron"))
        assert_close(actual, train(reference, x), 1e-4)
        counts.append(get_dynamo_metrics()["programs"])
    assert counts[1] == 2 * counts[0] == counts[-1]


def test_nested_regions_draw_numbers_of_their_own():
    model = Model(3, Nested, dropout=0.5).to("neuron")
    forward = compiled(model)
    x = torch.randn(64, 5, device="neuron")
    torch.manual_seed(3)
    first = [t.clone() for t in train(forward, x)]
    model.zero_grad()
    torch.manual_seed(3)
    torch.testing.assert_close(train(forward, x), first, rtol=0, atol=0)
    assert not torch.equal(forward(x), forward(x))


def test_programs_grow_linearly_with_layers(programs):
    sizes = []
    for layers in (2, 4, 6):
        torch._dynamo.reset()
        programs.clear()
        model = Model(layers).to("neuron")
        forward = compiled(model)
        train(forward, torch.randn(4, 5, device="neuron"))
        assert len(programs) == 2
        sizes.append([text.count("\n") for text in programs])
    for a, b, c in zip(*sizes, strict=True):
        assert c - b == b - a > 0
