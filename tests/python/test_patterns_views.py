# SPDX-License-Identifier: Apache-2.0
"""What other backends got wrong in views, writes, copies and numbers."""

import numpy as np
import pytest
import torch
from torch import Tensor

D = "neuron"


def same(function, *tensors: Tensor) -> None:
    """`function` gives on the device what it gives on the CPU."""
    expected = function(*(x.clone() for x in tensors))
    actual = function(*(x.to(D) for x in tensors))
    if isinstance(expected, Tensor):
        expected, actual = [expected], [actual]
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.device.type == D and a.dtype == e.dtype and a.shape == e.shape
        torch.testing.assert_close(a.cpu(), e, equal_nan=True)


def test_foreach_in_place_operators_change_their_inputs():
    x = [torch.ones(3, device=D), torch.ones(2, 2, device=D)]
    torch._foreach_add_(x, 1)
    torch._foreach_lgamma_(x)
    assert all((t.cpu() == 0).all() for t in x)


def test_cat_and_stack_find_their_device_from_a_list():
    x = torch.arange(6.0).view(2, 3)
    same(lambda x: torch.cat([x, x], 1), x)
    same(lambda x: torch.stack((x[:1], x[1:])), x)
    same(lambda x: torch.cat([x, x.new_empty(0)]), x)
    with pytest.raises((RuntimeError, ValueError), match="non-empty"):
        torch.cat([])


@pytest.mark.parametrize("function", [torch.mean, torch.amax, torch.cumsum])
def test_out_of_another_size_is_resized(function):
    x = torch.arange(6.0).view(2, 3)
    out = torch.empty(0, device=D)
    result = function(x.to(D), 0, out=out)
    assert result is out
    torch.testing.assert_close(out.cpu(), function(x, 0))


@pytest.mark.parametrize("shape", [(0,), (0, 64), (3, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.float64], ids=str)
def test_copies_of_nothing(shape, dtype):
    x = torch.zeros(shape, dtype=dtype)
    y = x.to(D)
    assert y.shape == x.shape and y.device.type == D
    assert y.to("neuron:1").cpu().shape == y.t_().clone().T.shape if x.dim() == 2 else 1
    assert torch.empty(shape, dtype=dtype).copy_(x.to(D)).shape == x.shape


def test_empty_contractions_give_beta_times_input():
    bias, a, b = torch.ones(2, 3), torch.ones(2, 0), torch.ones(0, 3)
    for beta in (0, 0.5):
        same(lambda c, a, b: torch.addmm(c, a, b, beta=beta), bias, a, b)  # noqa: B023
        same(
            lambda c, a, b: torch.baddbmm(c[None], a[None], b[None], beta=beta),  # noqa: B023
            bias,
            a,
            b,
        )
    same(torch.count_nonzero, torch.zeros(0))


def test_expanded_tensors_are_copied_element_by_element():
    x = torch.arange(3.0).view(1, 1, 3)
    for copy in (Tensor.clone, Tensor.contiguous, lambda y: y + 0):
        same(lambda x: copy(x.expand(1, 4, 3)), x)  # noqa: B023
    assert torch.equal(x.to(D).expand(1, 4, 3).cpu(), x.expand(1, 4, 3))


def test_strided_host_memory_arrives_in_order():
    x = torch.arange(6.0).view(3, 2).t()
    assert torch.equal(x.to(D).cpu(), x)
    array = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for view in (array[:, :2], array[::2], array.T):
        assert np.array_equal(torch.from_numpy(view).to(D).cpu().numpy(), view)


def test_storage_offsets_are_honoured():
    same(lambda t: torch.stack((t[:2], t[2:])), torch.arange(4.0))
    x = torch.arange(12.0).view(2, 6)
    assert torch.equal(x[1:].to(D).cpu(), x[1:])
    same(lambda x: x[1:] * 2, x)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)
def test_writes_to_a_slice_leave_its_neighbours(dtype):
    x = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 0]]).to(dtype)
    for write in (
        lambda t: t.zero_(),
        lambda t: t.fill_(1),
        lambda t: t.logical_not_(),
    ):
        for i in range(3):
            y, z = x.clone(), x.to(D)
            write(y[i])
            write(z[i])
            write(y[:, i])
            write(z[:, i])
            assert torch.equal(y, z.cpu())


def test_in_place_results_land_in_transposed_memory():
    x, y, z = torch.rand(3, 2), torch.rand(2, 3), torch.rand(2, 3) + 1
    same(lambda x, y, z: x.t().addcdiv_(y, z), x, y, z)
    parameters = []
    for device in ("cpu", D):
        p = x.clone().to(device).t().requires_grad_()
        optimizer = torch.optim.Adam([p], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        parameters.append(p.detach().cpu())
    torch.testing.assert_close(parameters[1], parameters[0])


def test_zero_dim_host_operands_have_an_offset():
    table = torch.arange(8.0)
    x = torch.ones(3, device=D)
    for i in range(8):
        assert (x * table[i]).cpu().tolist() == [i] * 3
        assert (table[i] - x).cpu().tolist() == [i - 1] * 3


@pytest.mark.parametrize(
    "name", "add sub mul div copysign atan2 fmod remainder pow maximum eq lt".split()
)
def test_numbers_on_either_side(name):
    function = getattr(torch, name)
    for x in (torch.tensor([1.0, -2.0]), torch.tensor([3, 5]), torch.tensor([True])):
        for number in (-2.0, 3):
            if name == "sub" and x.dtype == torch.bool:
                continue  # refused on every device
            if name in ("maximum", "atan2"):
                same(lambda x, n=number: function(x, torch.tensor(n)), x)
                continue
            same(lambda x, n=number: function(x, n), x)
    same(lambda x: 2 - x, torch.tensor([1.0, 3.0]))
    same(lambda x: 2**x, torch.tensor([1, 3]))


def test_accumulating_index_put_adds_every_update():
    x = torch.zeros(8)
    index = torch.tensor([5, 5, 5, 7])
    same(lambda x, i: x.index_put((i,), torch.ones(4).to(x), True), x, index)
    same(lambda x, i: x.index_put((i,), torch.tensor(2.0).to(x), True), x, index)
    same(lambda x, i: x[i.int()], x, index)
    same(lambda x, i: x[-i], torch.arange(8.0), index)
    mask = torch.arange(8) > 4
    same(lambda x, m: x.masked_fill(m, 3), x, mask)
    same(lambda x, m: x[m], torch.arange(8.0), mask)


def test_sources_of_non_blocking_copies_may_die():
    parts = [torch.tensor(float(i)).to(D, non_blocking=True) for i in range(200)]
    assert torch.stack(parts).cpu().tolist() == list(range(200))


def test_conjugate_and_negative_views_are_resolved():
    x = torch.randn(3, 3, dtype=torch.complex64)
    y = x.to(D)
    assert torch.equal(y.conj().cpu(), x.conj())
    assert torch.equal(y.conj().imag.cpu(), x.conj().imag)
    assert torch.equal(y.conj().clone().cpu(), x.conj())
    torch.testing.assert_close((y.conj() @ y).cpu(), x.conj() @ x)
    assert torch.equal(torch.empty_like(y).copy_(y.conj()).cpu(), x.conj())


def test_strides_are_those_of_the_meta_device():
    x = torch.randn(2, 4, 5, 5).to(memory_format=torch.channels_last)
    w = torch.randn(3, 4, 3, 3)
    for function in (
        lambda x, w: torch.conv2d(x, w),
        lambda x, w: torch.relu(x),
        lambda x, w: x + x.contiguous(),
        lambda x, w: torch.ops.aten.convolution_backward(
            x.new_ones(2, 3, 3, 3), x, w, None, [1, 1], [0, 0], [1, 1], False,
            [0, 0], 1, [True, True, False],
        )[0],
    ):  # fmt: skip
        expected = function(x.to("meta"), w.to("meta"))
        assert function(x.to(D), w.to(D)).stride() == expected.stride()


def test_integer_cumsum_is_int64():
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool):
        same(lambda x: x.cumsum(0), torch.tensor([1, 1, 1]).to(dtype))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 127, 128, 129, 511, 513])
def test_no_tile_size_leaks(n):
    x = torch.arange(float(n))
    same(Tensor.clone, x)
    same(lambda x: x.flip(0) + 1, x)
    same(lambda x: x[:, None] @ x[None, :3], x)


def test_every_variant_of_an_operator_exists():
    x = torch.rand(3, 4)
    for name in ("sin", "sqrt", "relu", "sigmoid", "neg", "floor"):
        same(getattr(torch, name), x)
        same(lambda x, n=name: getattr(x, n + "_")(), x)
        if name != "relu":
            same(lambda x, n=name: getattr(torch, n)(x, out=torch.empty_like(x)), x)


def test_resize_as_a_larger_tensor_keeps_the_elements():
    x = torch.arange(4.0, device=D)
    x.resize_as_(torch.empty(64, device=D))
    assert x.shape == (64,) and x[:4].cpu().tolist() == [0, 1, 2, 3]


def test_strided_indices_are_read_by_their_strides():
    index = torch.tensor([[0, 9], [2, 9], [1, 9]])
    same(lambda x, i: x[i[:, 0]], torch.arange(3.0), index)
    same(lambda x, i: x.index_select(0, i[:, 0]), torch.arange(3.0), index)


def test_half_precision_transforms_are_refused_as_on_the_cpu():
    """A check in core, which knows CUDA to have them; float32 runs."""
    same(torch.fft.rfft, torch.arange(8.0))
    for device in ("cpu", D):
        with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
            torch.fft.rfft(torch.arange(8.0, device=device).half())


@pytest.mark.parametrize("view", [
    lambda x: x.expand(4, 3),
    lambda x: x.expand(2, 3, 3).transpose(0, 2)[1:],
    lambda x: x.flatten().unfold(0, 2, 1),
])  # fmt: skip
def test_elements_that_share_memory_are_filled(view):
    for write in (Tensor.zero_, lambda t: t.fill_(2)):
        x = torch.arange(3.0).view(1, 3)
        y = x.to(D)
        assert write(view(y)).shape == write(view(x)).shape
        assert torch.equal(y.cpu(), x)
    with pytest.raises(RuntimeError, match="with gaps between them"):
        torch.zeros(12, device=D).as_strided((2, 2, 2), (4, 2, 4)).zero_()
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        torch.zeros(1, 3, device=D).expand(4, 3).add_(1)


def test_unsupported_types_compute_on_the_host_and_are_counted():
    import torch_neuronx

    torch_neuronx.clear_op_tracking()
    x = torch.randn(4, dtype=torch.complex128)
    torch.testing.assert_close((x.to(D) * 2).cpu(), x * 2)
    assert any("mul" in name for name in torch_neuronx.get_fallback_ops())
