# SPDX-License-Identifier: Apache-2.0
"""Training on the digits data set gives the CPU's loss curves."""

import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torch_neuronx
from digits import cnn, load, mlp


@pytest.fixture(scope="module")
def digits():
    images, targets = load()
    return images[:512], targets[:512]


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "adamw-foreach": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=True),
    "adamw-loop": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
}


def train(make, optimizer, digits, device, autocast=False, steps=12) -> list[float]:
    torch.manual_seed(0)
    model = make().to(device)
    images, targets = (x.to(device) for x in digits)
    opt = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    for step in range(steps):
        batch = slice(64 * (step % 8), 64 * (step % 8 + 1))
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            loss = nn.functional.cross_entropy(model(images[batch]), targets[batch])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", [mlp, cnn])
def test_loss_curve_equals_cpu(make, optimizer, digits):
    expected = train(make, optimizer, digits, "cpu")
    torch_neuronx.clear_op_tracking()
    actual = train(make, optimizer, digits, "neuron")
    assert torch_neuronx.get_fallback_ops() == {}
    assert actual == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_autocast_loss_curve_equals_cpu(digits):
    expected = train(mlp, "adamw", digits, "cpu", autocast=True)
    actual = train(mlp, "adamw", digits, "neuron", autocast=True)
    assert actual == pytest.approx(expected, rel=2e-2)


def test_autocast_lowers_and_keeps():
    x = torch.randn(4, 4, device="neuron")
    with torch.autocast("neuron"):
        assert (x @ x).dtype == torch.bfloat16
        assert x.softmax(-1).dtype == torch.float32
        with torch.autocast("neuron", enabled=False):
            assert (x @ x).dtype == torch.float32


def test_checkpointed_gradients_equal_plain_ones():
    model = mlp().to("neuron")
    x = torch.randn(5, 8, 8, device="neuron")
    model(x).sum().backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    checkpoint(model, x, use_reentrant=False).sum().backward()
    for p, g in zip(model.parameters(), plain, strict=True):
        torch.testing.assert_close(p.grad.cpu(), g.cpu())


def test_backward_from_several_threads():
    weight = torch.randn(16, 16, device="neuron")
    gradients = [None] * 4

    def work(i):
        w = weight.clone().requires_grad_()
        (w @ w).sum().backward()
        gradients[i] = w.grad.cpu()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    w = weight.cpu().requires_grad_()
    (w @ w).sum().backward()
    for gradient in gradients:
        torch.testing.assert_close(gradient, w.grad)


def test_checkpoint_travels_between_devices(digits, tmp_path):
    model = mlp().to("neuron")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = mlp()
    other.load_state_dict(torch.load(tmp_path / "model.pt", map_location="cpu"))
    images = digits[0][:8]
    torch.testing.assert_close(
        model(images.to("neuron")).cpu(), other(images), rtol=1e-5, atol=1e-5
    )
    back = mlp().to("neuron")
    back.load_state_dict(torch.load(tmp_path / "model.pt"))
    assert torch.equal(back[1].weight.cpu(), other[1].weight)
