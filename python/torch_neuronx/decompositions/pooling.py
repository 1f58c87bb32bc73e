# SPDX-License-Identifier: Apache-2.0
"""Fractional max pooling: windows whose places the samples decide."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_neuronx.decompositions import decomposition

aten = torch.ops.aten


def _starts(sample: Tensor, input: int, output: int, kernel: int) -> Tensor:
    """Where the windows of one dimension start: [batch, channels, output], after
    ATen's generate_intervals."""
    if output == 1:
        return torch.full_like(sample, input - kernel, dtype=torch.int64).unsqueeze(-1)
    step = (input - kernel) / (output - 1)
    steps = torch.arange(output - 1, dtype=sample.dtype, device=sample.device)
    sample = sample.unsqueeze(-1)
    places = ((steps + sample) * step).to(torch.int64)
    places = places - (sample * step).to(torch.int64)
    last = torch.full_like(sample, input - kernel, dtype=torch.int64)
    return torch.cat([places, last], -1)


@decomposition(aten.fractional_max_pool2d.default, aten.fractional_max_pool3d.default)
def fractional_max_pool(
    self: Tensor,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: Tensor,
) -> tuple[Tensor, Tensor]:
    n = random_samples.shape[-1]
    sizes = self.shape[-n:]
    planes = self.shape[:-n]
    batch, channels = random_samples.shape[:2]
    kernel_size = list(kernel_size) * (n // len(kernel_size))
    output_size = list(output_size) * (n // len(output_size))
    # Position of each element of each window: [batch, channels, (out, kernel)...].
    position: Tensor | int = 0
    for d in range(n):
        # The samples are (width, height), but (time, height, width).
        sample = random_samples[:, :, d if n == 3 else n - 1 - d]
        starts = _starts(sample, sizes[d], output_size[d], kernel_size[d])
        within = torch.arange(kernel_size[d], device=self.device)
        along = starts.unsqueeze(-1) + within
        shape = [batch, channels] + [1] * (2 * n)
        shape[2 + d], shape[2 + n + d] = output_size[d], kernel_size[d]
        position = position * sizes[d] + along.reshape(shape)
    window = [batch, channels, *output_size, -1]
    position = position.reshape(window)
    flat = self.reshape(batch, channels, -1)
    values = flat.gather(2, position.reshape(batch, channels, -1)).reshape(window)
    best = values.argmax(-1, keepdim=True)
    shape = [*planes, *output_size]
    return (
        values.gather(-1, best).reshape(shape),
        position.gather(-1, best).reshape(shape),
    )
