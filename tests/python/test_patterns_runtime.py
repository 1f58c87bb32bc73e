# SPDX-License-Identifier: Apache-2.0
"""What other backends got wrong where PyTorch calls them unasked: import, autograd's
threads, memory queries, generators, optimizers, autocast, serialisation."""

import copy
import io
import os
import subprocess
import sys

import pytest
import torch

D = "neuron"


def run(code: str, **env: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, **env},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_backward_waits_for_the_stream_of_the_forward():
    stream = torch.neuron.Stream()
    x = torch.full((256, 256), 0.01, device=D, requires_grad=True)
    stream.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(stream):
        y = x
        for _ in range(4):
            y = y @ y
        loss = y.sum()
    loss.backward()
    expected = torch.full((256, 256), 0.01, requires_grad=True)
    z = expected
    for _ in range(4):
        z = z @ z
    z.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-4)


def test_backward_runs_on_the_device_of_the_forward():
    x = torch.ones(3, device="neuron:1", requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.device == torch.device("neuron:1") and x.grad.tolist() == [2] * 3
    assert torch.neuron.current_device() == 0


def test_graphs_may_mix_devices():
    a = torch.ones(3, requires_grad=True)
    b = torch.ones(3, device=D, requires_grad=True)
    ((a * 2).to(D) * b).cpu().sum().backward()
    assert a.grad.tolist() == [2] * 3 and b.grad.cpu().tolist() == [2] * 3


def test_memory_functions_work_before_the_first_tensor():
    code = (
        "import torch\n"
        "m = torch.accelerator\n"
        "m.empty_cache(); m.reset_peak_memory_stats()\n"
        "m.reset_accumulated_memory_stats(); m.memory_stats()\n"
        "print(m.memory_allocated(), m.memory_reserved(), m.max_memory_allocated())\n"
    )
    assert run(code) == "0 0 0"


def test_memory_statistics_of_every_index():
    before = torch.neuron.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device=D)
    assert torch.neuron.memory_allocated() - before == 1 << 20
    for i in range(torch.neuron.device_count()):
        assert torch.accelerator.memory_allocated(i) >= 0
    del x


@pytest.mark.parametrize(
    "code",
    ["import torch_neuronx", "import torch", "import torch, torch_neuronx",
     "import torch_neuronx, torch"],
)  # fmt: skip
def test_imports_in_every_order(code):
    assert run(f"{code}; import torch; print(torch.neuron.device_count())") == "4"


def test_generator_states_reproduce():
    g = torch.Generator(D).manual_seed(3)
    torch.rand(5, device=D, generator=g)
    state = g.get_state()
    a = torch.rand(5, device=D, generator=g)
    g.set_state(state)
    clone = g.clone_state()
    b = torch.rand(5, device=D, generator=g)
    c = torch.rand(5, device=D, generator=clone)
    assert torch.equal(a.cpu(), b.cpu()) and torch.equal(a.cpu(), c.cpu())


@pytest.mark.parametrize("how", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_optimizers_run_in_every_form(kind, how):
    results = []
    for device in ("cpu", D):
        p = torch.arange(6.0).div(6).to(device).requires_grad_()
        optimizer = getattr(torch.optim, kind)([p], lr=0.1, **how)
        for _ in range(3):
            optimizer.zero_grad()
            p.square().sum().backward()
            optimizer.step()
        results.append(p.detach().cpu())
    torch.testing.assert_close(results[1], results[0])


def test_autocast_casts():
    x = torch.ones(4, 4, device=D)
    with torch.autocast(D, dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        assert torch.is_autocast_enabled(D)
        assert torch.nn.functional.softmax(x @ x, -1).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_map_location_knows_the_device():
    buffer = io.BytesIO()
    torch.save(torch.arange(3.0, device=D), buffer)
    for place in ("cpu", "neuron", "neuron:1", torch.device("neuron:2")):
        buffer.seek(0)
        assert torch.load(buffer, map_location=place).tolist() == [0, 1, 2]


def test_storages_grow_shrink_and_free():
    x = torch.arange(4.0, device=D)
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().size() == 0
    x.untyped_storage().resize_(16)
    x.copy_(torch.arange(4.0))
    assert x.tolist() == [0, 1, 2, 3]


def test_memory_queries_leave_a_process_that_may_fork():
    code = (
        "import os, torch\n"
        "torch.neuron.memory_allocated(); torch.neuron.device_count()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(int(torch.ones(2, device='neuron').sum().item()))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert run(code) == "2"


def test_empty_cache_returns_what_is_pending():
    torch.neuron.synchronize()
    torch.neuron.empty_cache()
    before = torch.neuron.memory_reserved()
    x = torch.empty(64 << 20, dtype=torch.uint8, device=D)
    del x
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved() <= before


def test_streams_and_events_order_work():
    stream, event = torch.neuron.Stream(), torch.neuron.Event()
    x = torch.zeros(1 << 16, device=D)
    for _ in range(50):
        x.add_(1)
    event.record()
    with torch.neuron.stream(stream):
        stream.wait_event(event)
        y = x * 2
    stream.synchronize()
    assert y[0].item() == 100 and event.query()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("source", ["cpu", D])
def test_data_parallel_equals_one_device(count, source):
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    model = torch.nn.Sequential(*layers)
    x = torch.randn(7, 3)
    expected = model(x)
    expected.square().sum().backward()
    copied = copy.deepcopy(model).to(D)
    copied.zero_grad()
    parallel = torch.nn.DataParallel(copied, device_ids=list(range(count)))
    actual = parallel(x.to(source))
    assert actual.device == torch.device("neuron:0")
    torch.testing.assert_close(actual.cpu(), expected)
    actual.square().sum().backward()
    for a, e in zip(copied.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), e.grad)


def test_operators_of_fsdp_run(no_fallback):
    """As two ranks copy their shards, gather them and cut the result."""
    import torch.distributed.fsdp._fully_shard._fsdp_collectives

    ops = torch.ops.fsdp
    results = []
    for device in ("cpu", D):
        shards = [torch.arange(4.0).to(device), torch.arange(6.0).to(device) * 2]
        gathered = torch.zeros(20, device=device)
        for rank in (0, 1):
            own, gathered = ops.all_gather_copy_in(shards, gathered, [4, 6], 10, rank)
            shards = [x + 1 for x in shards]
        out = [torch.empty(2, n, device=device) for n in (4, 6)]
        ops.split_with_sizes_copy(gathered.view(2, 10), [4, 6], dim=1, out=out)
        grads = [torch.arange(5.0).to(device), torch.arange(8.0).to(device)]
        chunks = torch.empty(2, 7, device=device)
        ops.chunk_cat(grads, dim=0, num_chunks=2, out=chunks)
        results.append([x.cpu() for x in (own, gathered, *out, chunks)])
    for a, e in zip(results[1], results[0], strict=True):
        assert torch.equal(a, e)


def test_memory_of_another_stream_waits_for_its_event():
    """As FSDP prefetches: gather on one stream, compute on another, free early."""
    gather = torch.neuron.Stream()
    shard = torch.ones(1 << 18, device=D)
    totals = []
    for step in range(8):
        with torch.neuron.stream(gather):
            full = torch.cat([shard * step] * 4)
            for _ in range(20):
                full.add_(1)
        event = gather.record_event()
        torch.neuron.current_stream().wait_event(event)
        totals.append((full * 2).sum() / full.numel())
        # The block may be reused by the next gather after this stream only.
        full.record_stream(torch.neuron.current_stream())
        del full
    assert [t.item() for t in totals] == [2.0 * (step + 20) for step in range(8)]


def test_deepcopies_share_nothing():
    model = torch.nn.Linear(2, 2, device=D)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.weight.zero_()
    assert model.weight.abs().sum().item() > 0
