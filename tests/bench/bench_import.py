# SPDX-License-Identifier: Apache-2.0
"""What autoload adds to ``import torch``: medians of alternating runs.

python tests/bench/bench_import.py [RUNS]
"""

import os
import statistics
import subprocess
import sys

PROGRAM = """
import time
start = time.perf_counter()
import torch
print(time.perf_counter() - start)
"""


def seconds(autoload: str) -> float:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return float(result.stdout)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    times: dict[str, list[float]] = {"0": [], "1": []}
    for _ in range(runs):
        for autoload, found in times.items():
            found.append(seconds(autoload))
    without, with_ = (statistics.median(found) for found in times.values())
    print(
        f"import torch {without * 1e3:.0f} ms, with this package {with_ * 1e3:.0f} ms: "
        f"{(with_ - without) * 1e3:+.0f} ms (medians of {runs})"
    )


if __name__ == "__main__":
    main()
