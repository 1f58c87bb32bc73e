# SPDX-License-Identifier: Apache-2.0
"""Host copies of 64 MiB against memcpy, in one run, best of 10."""

import math
import time

import torch

import torch_neuronx  # noqa: F401

BYTES = 64 << 20


def best(call) -> float:
    seconds = math.inf
    for _ in range(10):
        torch.neuron.synchronize()
        start = time.perf_counter()
        call()
        torch.neuron.synchronize()
        seconds = min(seconds, time.perf_counter() - start)
    return BYTES / seconds / 2**30


def main() -> None:
    torch.set_num_threads(1)
    host = torch.ones(BYTES, dtype=torch.uint8)
    other = torch.ones(BYTES, dtype=torch.uint8)
    pinned = torch.ones(BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.ones(BYTES, dtype=torch.uint8, device="neuron")
    memcpy = best(lambda: other.copy_(host))
    rates = {
        "memcpy": memcpy,
        "host to device, pageable": best(lambda: device.copy_(host)),
        "host to device, pinned": best(lambda: device.copy_(pinned, True)),
        "device to host, pageable": best(lambda: other.copy_(device)),
        "device to host, pinned": best(lambda: pinned.copy_(device, True)),
    }
    for name, rate in rates.items():
        print(f"{name:26} {rate:6.2f} GiB/s  {rate / memcpy:.2f}")


if __name__ == "__main__":
    main()
