# SPDX-License-Identifier: Apache-2.0
"""What ``torch.nn.DataParallel`` moves tensors with. Its Python serves every
accelerator, but these functions of ``torch._C`` exist in builds for CUDA only."""

from collections.abc import Sequence

import torch
from torch import Tensor

_HOST = -1  # as a destination


def install() -> None:
    for function in (
        _broadcast,
        _broadcast_coalesced,
        _broadcast_out,
        _gather,
        _gather_out,
        _scatter,
        _scatter_out,
    ):
        if not hasattr(torch._C, function.__name__):
            setattr(torch._C, function.__name__, function)


def _device(index: int | None) -> torch.device:
    if index == _HOST:
        return torch.device("cpu")
    return torch.device(
        "neuron", torch.neuron.current_device() if index is None else index
    )


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    return [tensor.to(_device(i), non_blocking=True) for i in devices]


def _broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> list[Tensor]:
    return [x.copy_(tensor, non_blocking=True) for x in out]


def _broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[Tensor]]:
    """One list per device. Copies go one by one: nothing is gained by fewer."""
    return [[x.to(_device(i), non_blocking=True) for x in tensors] for i in devices]


def _scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[torch.Stream | None] | None = None,
) -> list[Tensor]:
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    else:
        chunks = tensor.split(list(chunk_sizes), dim)
    results = []
    for k, (chunk, index) in enumerate(zip(chunks, devices, strict=False)):
        stream = streams[k] if streams else None
        with torch.accelerator.device_index(_device(index).index):
            if stream is None:
                results.append(chunk.to(_device(index), non_blocking=True))
                continue
            with stream:
                results.append(chunk.to(_device(index), non_blocking=True))
    return results


def _scatter_out(
    tensor: Tensor,
    out: Sequence[Tensor],
    dim: int = 0,
    streams: Sequence[torch.Stream | None] | None = None,
) -> list[Tensor]:
    sizes = [x.size(dim) for x in out]
    parts = tensor.split(sizes, dim)
    return [x.copy_(part) for x, part in zip(out, parts, strict=True)]


def _gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    target = _device(destination)
    return torch.cat([x.to(target) for x in tensors], dim)


def _gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    return torch.cat([x.to(out.device) for x in tensors], dim, out=out)
