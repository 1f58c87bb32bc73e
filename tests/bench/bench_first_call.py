# SPDX-License-Identifier: Apache-2.0
"""What new programs cost.

First: the time of a call whose key is seen for the first time, over PyTorch's operator
database: median and 90th percentile in milliseconds, apart for operators with a
lowering of ours and for those that PyTorch decomposes. Only calls that make exactly one
program count, so that a figure is one operator's. The calls run once before for other
operators, so that what a process imports once is no part of it.

Then: which programs a training run of a small CNN on the digits and 64 tokens of
SmolLM2-135M compile, step by step and with the reason for each: the operator's first
call, or what in the call was new. A changing Python scalar must be no reason.

    bench_first_call.py [--skip-database] [--skip-decoding] [--programs]
"""

import argparse
import os
import statistics
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import digits
import torch_neuronx

TOKENS = 64
SAMPLES = 3  # of each operator of the database


def to_device(tree):
    return tree_map(
        lambda x: x.to("neuron") if isinstance(x, torch.Tensor) else x, tree
    )


# The cost of a first call


def database() -> Iterator[tuple[Callable, object]]:
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if torch.float32 not in op.supported_dtypes("cpu"):
            continue
        samples = op.sample_inputs("cpu", torch.float32)
        try:
            for _, sample in zip(range(SAMPLES), samples, strict=False):
                yield op, sample
        except Exception as error:  # its samples need what is not installed
            print(f"no samples of {op.name}: {error}", file=sys.stderr)


def first_calls() -> dict[str, list[float]]:
    """Milliseconds of calls that made one program."""
    costs: dict[str, list[float]] = {"native lowering": [], "decomposition": []}
    warm_up = torch.ones(3, device="neuron")
    nn.functional.softshrink(nn.functional.logsigmoid(warm_up)).sum().item()
    for op, sample in database():
        arguments = to_device((sample.input, *sample.args)), to_device(sample.kwargs)
        torch.neuron.synchronize()
        before = torch_neuronx.metrics()
        start = time.perf_counter()
        try:
            op(*arguments[0], **arguments[1])
            torch.neuron.synchronize()
        except Exception:
            continue  # operators that refuse a sample are the tests' matter
        took = (time.perf_counter() - start) * 1e3
        after = torch_neuronx.metrics()
        new = {k: after[k] - before[k] for k in after}
        if new["cache_misses"] == new["programs_compiled"] == 1:
            if not new["fallbacks"]:
                kind = "decomposition" if new["decompositions"] else "native lowering"
                costs[kind].append(took)
    return costs


def report_first_calls() -> None:
    table = Table("first call of", "calls", "median ms", "90 % below ms")
    for kind, costs in first_calls().items():
        ninety = statistics.quantiles(costs, n=10)[-1]
        table.add_row(
            kind, str(len(costs)), f"{statistics.median(costs):.2f}", f"{ninety:.2f}"
        )
    Console(width=100).print(table)


# The programs of a run


def describe(x) -> str:
    if isinstance(x, torch.Tensor):
        kind = str(x.dtype).removeprefix("torch.")
        laid_out = "" if x.is_contiguous() else f" strided {list(x.stride())}"
        return f"{kind}{list(x.shape)}{laid_out}"
    return repr(x)


class Programs(TorchDispatchMode):
    """Watches which calls compile a program, in which step, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[tuple]] = defaultdict(list)
        self.step = "start"
        self.found: list[tuple[str, str, str, str]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        signature = tuple(describe(x) for x in leaves)
        numbers = tuple(
            isinstance(x, (int, float)) and not isinstance(x, bool) for x in leaves
        )
        before = torch_neuronx.metrics()["programs_compiled"]
        result = func(*args, **kwargs)
        count = torch_neuronx.metrics()["programs_compiled"] - before
        name = func.name()
        if count:
            reason = self.reason(name, signature, numbers)
            shown = ", ".join(s for s in signature if s != "None")
            self.found += [(self.step, name, reason, shown)] * count
        self.seen[name].append(signature)
        return result

    def reason(self, name: str, signature: tuple, numbers: tuple) -> str:
        if name not in self.seen:
            return "operator's first call"
        before = self.seen[name]
        alike = [s for s in before if len(s) == len(signature)]
        if not alike:
            return "another number of operands"

        def kind(text: str) -> str:
            return text.partition("[")[0]

        reasons = set()
        for other in alike:
            new = [i for i, s in enumerate(signature) if s != other[i]]
            tensors = [i for i in new if "[" in signature[i]]
            if any(kind(signature[i]) != kind(other[i]) for i in tensors):
                reasons.add("new dtype")
            elif tensors:
                reasons.add("new shape or strides")
            elif new and all(numbers[i] for i in new):
                reasons.add("new number")
            else:
                reasons.add("new argument" if new else "seen before")
        # The smallest difference to any earlier call is the reason.
        order = ("seen before", "new number", "new argument", "new shape or strides")
        return next((r for r in order if r in reasons), "new dtype")


def report_programs(title: str, run: Callable[[Programs], None], listed: bool) -> None:
    torch_neuronx.reset_metrics()
    programs = Programs()
    with programs:
        run(programs)
    torch.neuron.synchronize()
    total = torch_neuronx.metrics()["programs_compiled"]
    table = Table("step", "programs", "reasons", title=f"{title}: {total} programs")
    rows: list[tuple[list[str], Counter]] = []  # steps that compile alike
    for step in dict.fromkeys(found[0] for found in programs.found):
        reasons = Counter(reason for s, _, reason, _ in programs.found if s == step)
        if rows and rows[-1][1] == reasons:
            rows[-1][0].append(step)
        else:
            rows.append(([step], reasons))
    for steps, reasons in rows:
        text = ", ".join(f"{n} {reason}" for reason, n in reasons.most_common())
        name, each = steps[0], str(reasons.total())
        if len(steps) > 1:
            name, each = f"{name} to {steps[-1].split()[-1]}", f"{each} each"
        table.add_row(name, each, text)
    Console(width=100).print(table)
    if total != len(programs.found):
        print(f"{total - len(programs.found)} more below the dispatcher's view")
    if listed:
        for step, name, reason, shown in programs.found:
            print(f"{step}: {name}({shown}): {reason}")


def train_digits(programs: Programs) -> None:
    torch.manual_seed(0)
    images, targets = (x.to("neuron") for x in digits.load())
    model = digits.cnn().to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 56)
    step = 0
    for _ in range(2):
        for start in range(0, len(images), 64):
            step += 1
            programs.step = f"step {step}"
            batch = slice(start, start + 64)
            loss = nn.functional.cross_entropy(model(images[batch]), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            loss.item()


def decode(programs: Programs) -> None:
    from transformers import AutoModelForCausalLM
    from transformers.generation.streamers import BaseStreamer

    from smollm2 import model_folder

    class Steps(BaseStreamer):
        tokens = 0

        def put(self, value) -> None:
            self.tokens += 1
            programs.step = f"token {self.tokens}"

        def end(self) -> None:
            pass

    programs.step = "loading"
    model = AutoModelForCausalLM.from_pretrained(
        model_folder(), dtype=torch.float32, device_map="neuron"
    )
    prompt = torch.arange(100, 145, device="neuron")[None]
    programs.step = "prompt"
    model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=TOKENS,
        min_new_tokens=TOKENS,
        do_sample=False,
        streamer=Steps(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-database", action="store_true")
    parser.add_argument("--skip-decoding", action="store_true")
    parser.add_argument("--programs", action="store_true", help="list every program")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    report_programs("training a CNN on the digits", train_digits, arguments.programs)
    if not arguments.skip_decoding:
        report_programs(f"SmolLM2-135M, {TOKENS} tokens", decode, arguments.programs)
    if not arguments.skip_database:
        report_first_calls()


if __name__ == "__main__":
    main()
