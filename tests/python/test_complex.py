# SPDX-License-Identifier: Apache-2.0
"""Complex tensors live on the device and compute on the host, visibly; nested and
sparse tensors either work or say what is missing."""

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

import torch_neuronx

DEVICE = "neuron"

pytestmark = pytest.mark.filterwarnings("ignore:.*ran on the CPU")

Z = torch.complex(torch.linspace(-1, 1, 12), torch.linspace(2, -2, 12)).reshape(3, 4)
X = torch.linspace(-1, 1, 24).reshape(4, 6)


def both(function, *args):
    expected = function(*args)
    moved = tree_map(lambda x: x.to(DEVICE) if isinstance(x, torch.Tensor) else x, args)
    actual = function(*moved)
    for a, e in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        if isinstance(e, torch.Tensor):
            assert a.device.type == DEVICE and a.dtype == e.dtype
            torch.testing.assert_close(a.cpu(), e, rtol=2e-5, atol=2e-5)
        else:
            assert a == e


COMPLEX = {
    "add": lambda z: z + 2 * z,
    "mul": lambda z: z * (1 + 2j),
    "div": lambda z: z / z.flip(1),
    "matmul": lambda z: z @ z.mT,
    "conj": lambda z: z.conj() + 1,
    "conj-physical": lambda z: z.conj_physical(),
    "resolve-conj": lambda z: z.conj().resolve_conj(),
    "conj-matmul": lambda z: z.conj() @ z.mT,
    "adjoint": lambda z: z.mH,
    "neg-view": lambda z: z.conj().imag,
    "abs": lambda z: z.abs(),
    "angle": lambda z: z.angle(),
    "exp": lambda z: z.exp(),
    "sum": lambda z: z.sum(0),
    "real": lambda z: z.real * 2,
    "imag": lambda z: z.imag + 1,
    "view_as_real": lambda z: torch.view_as_real(z) * 3,
    "view_as_complex": lambda z: torch.view_as_complex(torch.view_as_real(z) * 2),
    "write-to-real": lambda z: (w := z.clone(), w.real.mul_(2), w)[-1],
    "slice": lambda z: z[1:, ::2],
    "cat": lambda z: torch.cat([z, z.conj()]),
    "where": lambda z: torch.where(z.real > 0, z, 0 * z),
    "polar": lambda z: torch.polar(z.abs(), z.angle()),
    "complex": lambda z: torch.complex(z.real.contiguous(), z.imag.contiguous()),
    "item": lambda z: z[0, 0].item(),
    "eq": lambda z: z == z.conj(),
    "linalg-solve": lambda z: torch.linalg.solve(
        z[:, :3] + 3 * torch.eye(3, device=z.device), z
    ),
    "autograd": lambda z: torch.autograd.grad(
        (w := z.detach().clone().requires_grad_()).abs().square().sum(), w
    )[0],
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_equals_cpu(name, dtype):
    both(COMPLEX[name], Z.to(dtype))


FFT = {
    "fft": lambda x: torch.fft.fft(x),
    "ifft": lambda x: torch.fft.ifft(torch.fft.fft(x)),
    "rfft": lambda x: torch.fft.rfft(x, norm="ortho"),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=6),
    "hfft": lambda x: torch.fft.hfft(torch.fft.ihfft(x), n=6),
    "fft2": lambda x: torch.fft.fft2(x),
    "rfftn": lambda x: torch.fft.rfftn(x, s=(2, 8)),
    "fftshift": lambda x: torch.fft.fftshift(x, dim=1),
    "stft": lambda x: torch.stft(
        x.flatten(),
        8,
        window=torch.hann_window(8, device=x.device),
        return_complex=True,
    ),
    "istft": lambda x: torch.istft(
        torch.stft(
            x.flatten(),
            8,
            window=torch.hann_window(8, device=x.device),
            return_complex=True,
        ),
        8,
        window=torch.hann_window(8, device=x.device),
    ),
    "autograd": lambda x: torch.autograd.grad(
        torch.fft.rfft(w := x.detach().clone().requires_grad_()).abs().sum(), w
    )[0],
}


@pytest.mark.parametrize("name", FFT)
def test_fft_equals_cpu(name):
    both(FFT[name], X)


def test_complex_work_is_counted():
    torch_neuronx.clear_op_tracking()
    (Z.to(DEVICE) * 2).cpu()
    assert torch_neuronx.get_fallback_ops() == {"aten::mul.Tensor": 1}


def test_complex_work_is_an_error_on_request():
    z = Z.to(DEVICE)
    torch_neuronx.set_fallback_mode("error")
    try:
        with pytest.raises(NotImplementedError, match=r"aten::mul\.Tensor"):
            z * 2
    finally:
        torch_neuronx.set_fallback_mode("warn")


# Sparse and nested tensors: right, or NotImplementedError that names the operator.

SPARSE = {
    "to_sparse": lambda x: x.relu().to_sparse(),
    "to_sparse_csr": lambda x: x.relu().to_sparse_csr(),
    "coo": lambda x: torch.sparse_coo_tensor(
        torch.tensor([[0, 1], [1, 0]], device=x.device), x[0, :2], (2, 2)
    ),
    "csr": lambda x: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2], device=x.device),
        torch.tensor([1, 0], device=x.device),
        x[0, :2],
        (2, 2),
    ),
    "move": lambda x: x.cpu().to_sparse().to(x.device),
    "move-csr": lambda x: x.cpu().to_sparse_csr().to(x.device),
    "embedding": lambda x: torch.autograd.grad(
        torch.nn.functional.embedding(
            torch.tensor([1, 2], device=x.device),
            w := x.detach().clone().requires_grad_(),
            sparse=True,
        ).sum(),
        w,
    )[0],
    "mm": lambda x: torch.sparse.mm(x.relu().to_sparse(), x.t()),
    "add": lambda x: x.to_sparse() + x.to_sparse(),
}

NESTED = {
    "jagged": lambda x: torch.nested.nested_tensor([x[:2], x[:3]], layout=torch.jagged),
    "strided": lambda x: torch.nested.nested_tensor([x[:2], x[:3]]),
    "as_nested": lambda x: torch.nested.as_nested_tensor([x[:2], x[:3]]),
    "jagged-add": lambda x: (
        torch.nested.as_nested_tensor([x[:2], x[:3]], layout=torch.jagged) + 1
    ),
    "jagged-offsets": lambda x: torch.nested.nested_tensor_from_jagged(
        x, torch.tensor([0, 2, 4], device=x.device)
    ).sin(),
    "jagged-padded": lambda x: torch.nested.nested_tensor_from_jagged(
        x, torch.tensor([0, 1, 4], device=x.device)
    ).to_padded_tensor(0.0),
    "strided-padded": lambda x: torch.nested.nested_tensor(
        [x[:2], x[:3]]
    ).to_padded_tensor(0.0),
}


def dense(result):
    """Its elements as one plain CPU tensor per part."""
    if result.is_nested:
        return [part.cpu() for part in result.unbind()]
    return [result.to_dense().cpu() if result.layout != torch.strided else result.cpu()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*SPARSE, *NESTED])
def test_other_layouts_are_right_or_refused(name):
    function = (SPARSE | NESTED)[name]
    expected = dense(function(X))
    try:
        actual = dense(function(X.to(DEVICE)))
    except NotImplementedError as error:
        assert "aten::" in str(error) or "Sparse" in str(error), error
        return
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=2e-5, atol=2e-5)
