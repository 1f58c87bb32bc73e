# SPDX-License-Identifier: Apache-2.0
"""The device as torch.cuda's users know theirs."""

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import torch_neuronx


def run(code: str, **env: str) -> subprocess.CompletedProcess:
    import os

    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **env},
    )


def test_module_and_accelerator_agree():
    assert torch.neuron.is_available()
    assert torch.neuron.device_count() == torch.accelerator.device_count() == 4
    assert torch.accelerator.current_accelerator().type == "neuron"
    assert torch.get_device_module("neuron") is torch.neuron
    assert torch.device(0) == torch.device("neuron:0")


def test_import_and_queries_start_no_runtime():
    result = run(
        "import torch; torch.neuron.device_count(); torch.neuron.is_available();"
        "torch.manual_seed(1); print(torch.neuron.is_initialized())"
    )
    assert result.stdout.strip() == "False", result.stderr


def test_import_survives_a_forced_missing_runtime():
    result = run(
        "import torch; print(torch.neuron.is_available())\n"
        "try: torch.ones(1, device='neuron')\n"
        "except RuntimeError as e: print('error:', e)",
        TORCH_NEURONX_RUNTIME="nrt",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("False\nerror:")


def test_malformed_environment_is_an_error_at_use():
    result = run(
        "import torch; print(torch.neuron.device_count())\n"
        "try: torch.ones(1, device='neuron')\n"
        "except RuntimeError as e: print('error:', e)",
        NEURON_RT_VISIBLE_CORES="one",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("0\nerror:")
    assert "NEURON_RT_VISIBLE_CORES" in result.stdout + result.stderr


def test_visible_cores_are_honoured():
    result = run(
        "import torch; print(torch.neuron.device_count())",
        NEURON_RT_VISIBLE_CORES="1-2",
    )
    assert result.stdout.strip() == "2"


def test_fork_after_use_raises_like_cuda():
    result = run(
        "import os, torch; torch.ones(1, device='neuron').cpu()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: torch.ones(1, device='neuron')\n"
        "    except RuntimeError as e: os._exit(7 if 'spawn' in str(e) else 8)\n"
        "    os._exit(9)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert result.stdout.strip() == "7", result.stderr


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.float64,
        torch.complex64,
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (0, 64), (3,), (63, 65), (2, 3, 4)])
def test_copies_keep_every_element(dtype, shape):
    x = (torch.randn(shape) * 50).to(dtype)
    y = x.to("neuron")
    assert y.device == torch.device("neuron:0") and y.dtype == dtype
    assert torch.equal(y.cpu(), x)
    assert torch.equal(y.clone().cpu(), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float64])
def test_copies_of_views(dtype):
    x = (torch.randn(4, 6) * 50).to(dtype)
    y = x.to("neuron")
    views = [
        lambda t: t.t(),
        lambda t: t[:, ::2],
        lambda t: t[1:, 2:],
        lambda t: t[1].expand(3, 6),
        lambda t: t.unfold(1, 3, 1),
        lambda t: t.diagonal(),
        lambda t: t.as_strided((2, 2), (7, 2), 3),
    ]
    for view in views:
        assert torch.equal(view(y).cpu(), view(x))
        assert torch.equal(view(x).to("neuron").cpu(), view(x))
        assert torch.equal(view(y).contiguous().cpu(), view(x).contiguous())
    y[:, 1] = 7
    x[:, 1] = 7
    y[1].zero_()
    x[1].zero_()
    assert torch.equal(y.cpu(), x)


def test_copies_between_devices():
    x = torch.randn(5, 7)
    y = x.to("neuron:0").to("neuron:1")
    assert y.device.index == 1
    assert torch.equal(y.t().to("neuron:2").cpu(), x.t())
    assert torch.equal((y + y).cpu(), x + x)


def test_temporaries_may_die_after_a_non_blocking_copy():
    y = torch.stack(
        [torch.full((64,), float(i)).to("neuron", non_blocking=True) for i in range(99)]
    )
    assert torch.equal(y[:, 0].cpu(), torch.arange(99.0))


def test_pinned_memory():
    x = torch.randn(1000).pin_memory()
    assert x.is_pinned() and x[10:].is_pinned()
    y = x.to("neuron", non_blocking=True)
    z = torch.empty(1000, pin_memory=True)
    z.copy_(y, non_blocking=True)
    torch.neuron.synchronize()
    assert torch.equal(z, x)


def test_data_loader_pins():
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(
        data, batch_size=16, num_workers=2, pin_memory=True
    )
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat([b.to("neuron") for b in batches]).sum().item() == 2016


def test_serialisation(tmp_path):
    x = torch.randn(3, 4, device="neuron")
    pair = {"x": x, "view": x[1:]}
    torch.save(pair, tmp_path / "pair.pt")
    for place in (None, "cpu", "neuron:1"):
        loaded = torch.load(tmp_path / "pair.pt", map_location=place)
        assert loaded["x"].device == torch.device(place or "neuron:0")
        assert torch.equal(loaded["view"].cpu(), x[1:].cpu())
        loaded["x"].zero_()
        assert loaded["view"].sum().item() == 0
    assert torch.equal(pickle.loads(pickle.dumps(x)).cpu(), x.cpu())
    a, b = copy.deepcopy((x, x[1:]))
    assert a.data_ptr() != x.data_ptr() and b.data_ptr() == a[1:].data_ptr()


def test_printing_and_numpy():
    x = torch.tensor([1.5, 2.5], device="neuron")
    assert repr(x) == "tensor([1.5000, 2.5000], device='neuron:0')"
    with pytest.raises(TypeError, match="can't convert neuron:0 device type tensor"):
        x.numpy()
    assert np.array_equal(x.cpu().numpy(), [1.5, 2.5])


def test_storage_pointers_are_true_addresses():
    x = torch.arange(10.0, device="neuron")
    assert x[3:].data_ptr() == x.data_ptr() + 12
    assert x.untyped_storage().nbytes() == 40
    x.untyped_storage().resize_(80)
    assert torch.equal(x.cpu(), torch.arange(10.0))
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


def test_module_to_keeps_parameters_of_an_earlier_optimizer():
    model = torch.nn.Linear(2, 2)
    weight = model.weight
    model.to("neuron")
    assert model.weight is weight and weight.device.type == "neuron"


def test_memory_statistics_and_release():
    torch.neuron.empty_cache()
    before = torch.neuron.memory_allocated()
    x = torch.empty(4 << 20, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_allocated() - before == 4 << 20
    assert torch.neuron.max_memory_allocated() >= 4 << 20
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()
    free, total = torch.neuron.mem_get_info()
    assert 0 < free < total == 24 << 30
    del x
    torch.neuron.empty_cache()
    assert torch.neuron.memory_allocated() == before
    assert torch.accelerator.memory.memory_allocated() == before


def test_out_of_memory_is_an_error_and_passes():
    with pytest.raises(torch.OutOfMemoryError, match="out of memory. Tried"):
        torch.empty(40 << 30, dtype=torch.uint8, device="neuron")
    huge = torch.empty(20 << 30, dtype=torch.uint8, device="neuron")
    del huge
    assert torch.ones(2, device="neuron").sum().item() == 2


def test_streams_order_and_events_time():
    stream = torch.neuron.Stream()
    x = torch.randn(512, 512, device="neuron")
    start = torch.neuron.Event(enable_timing=True)
    end = torch.neuron.Event(enable_timing=True)
    stream.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(stream):
        start.record()
        y = x
        for _ in range(8):
            y = y @ x / 512
        end.record()
    torch.neuron.current_stream().wait_stream(stream)
    y.record_stream(torch.neuron.current_stream())
    z = (y + 1).cpu()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    expected = x.cpu()
    for _ in range(8):
        expected = expected @ x.cpu() / 512
    torch.testing.assert_close(z, expected + 1)
    assert stream.query()


def test_random_numbers_follow_the_seed():
    torch.manual_seed(3)
    state = torch.neuron.get_rng_state()
    assert state.dtype == torch.uint8 and state.numel() == 16
    a = torch.randn(1000, device="neuron")
    torch.neuron.set_rng_state(state)
    b = torch.randn(1000, device="neuron")
    assert torch.equal(a.cpu(), b.cpu())
    with torch.random.fork_rng(device_type="neuron"):
        torch.rand(5, device="neuron")
    c = torch.randn(1000, device="neuron")
    torch.neuron.set_rng_state(state)
    torch.randn(1000, device="neuron")
    assert torch.equal(c.cpu(), torch.randn(1000, device="neuron").cpu())
    assert not torch.equal(a.cpu(), c.cpu())
    generator = torch.Generator("neuron").manual_seed(5)
    d = torch.rand(9, device="neuron", generator=generator)
    assert torch.equal(
        d.cpu(),
        torch.rand(9, device="neuron", generator=generator.manual_seed(5)).cpu(),
    )
    with pytest.raises(RuntimeError, match="Expected a 'neuron' device type"):
        torch.rand(3, device="neuron", generator=torch.Generator())


def test_distributions():
    n = 200_000
    uniform = torch.rand(n, device="neuron").cpu()
    assert 0 <= uniform.min() and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.005
    normal = torch.randn(n, device="neuron").cpu()
    assert abs(normal.mean()) < 0.01 and abs(normal.std() - 1) < 0.01
    draws = torch.randint(3, 9, (n,), device="neuron").cpu()
    assert sorted(draws.unique().tolist()) == [3, 4, 5, 6, 7, 8]
    heads = torch.empty(n, device="neuron").bernoulli_(0.3).cpu()
    assert abs(heads.mean() - 0.3) < 0.01
    exponential = torch.empty(n, device="neuron").exponential_(2.0).cpu()
    assert abs(exponential.mean() - 0.5) < 0.01
    kept = torch.nn.functional.dropout(torch.ones(n, device="neuron"), 0.25).cpu()
    assert abs((kept == 0).float().mean() - 0.25) < 0.01
    assert abs(kept.max() - 1 / 0.75) < 1e-6


@pytest.mark.parametrize(
    "call,error",
    [
        (lambda x: x @ torch.ones(3, 3, device="neuron"), "cannot be multiplied"),
        (lambda x: x + torch.ones(4), "same device"),
        (lambda x: x + torch.ones(7, device="neuron"), "must match the size"),
        (lambda x: torch.cat([x, x[:, :2]]), "Sizes of tensors must match"),
        (lambda x: x.expand(4, 6)[:2].add_(1), "single memory location"),
        (lambda x: torch.ones(1, device="neuron:99"), "invalid device ordinal"),
        (lambda x: x.view(5, 5), "invalid for input of size"),
        (lambda x: x.long().add_(0.5), "can't be cast"),
    ],
)
def test_bad_input_is_an_error_at_the_call(call, error):
    x = torch.ones(1, 6, device="neuron")
    with pytest.raises(RuntimeError, match=error):
        call(x)
    assert x.sum().item() == 6


def test_index_out_of_range_is_raised_by_the_synchronisation():
    weight = torch.ones(4, 2, device="neuron")
    index = torch.tensor([1, 9], device="neuron")
    with pytest.raises(IndexError, match="embedding"):
        torch.nn.functional.embedding(index, weight).cpu()
    assert weight.sum().item() == 8


def test_fallbacks_are_counted_and_can_be_forbidden():
    torch_neuronx.clear_op_tracking()
    x = torch.diag(torch.tensor([3.0, 1.0])).to("neuron")
    assert torch.linalg.eigvalsh(x).cpu().tolist() == [1.0, 3.0]
    assert torch_neuronx.get_fallback_ops() == {"aten::_linalg_eigh": 1}
    result = run(
        "import torch; torch.linalg.eigvalsh(torch.ones(2, 2, device='neuron'))",
        TORCH_NEURONX_FALLBACK="error",
    )
    assert "NotImplementedError: [aten::_linalg_eigh]" in result.stderr


def test_scalars_become_inputs_after_four_values():
    x = torch.ones(17, 3, device="neuron")
    x * 0.5
    before = torch_neuronx.metrics()["programs_compiled"]
    for i in range(50):
        y = x * (1.0 + i)
        assert y[0, 0].item() == 1.0 + i
    assert torch_neuronx.metrics()["programs_compiled"] - before <= 8


def test_state_dict_round_trip():
    model = torch.nn.Linear(3, 3).to("neuron")
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    other = torch.nn.Linear(3, 3)
    other.load_state_dict(torch.load(buffer, map_location="cpu"))
    assert torch.equal(other.weight, model.weight.cpu())
