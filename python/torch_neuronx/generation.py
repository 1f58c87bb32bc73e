# SPDX-License-Identifier: Apache-2.0
"""Text generation with Transformers in a bounded number of programs.

``generate`` with a static cache compiles one program for a decoding step and one for
each length of prompt. ``warm_up`` pads prompts on the left to a few lengths, compiles
these and the decoding step beforehand, and leaves ``model.generate`` to be called as
ever::

    model = AutoModelForCausalLM.from_pretrained(path, device_map="neuron").eval()
    torch_neuronx.generation.warm_up(model, max_prompt_length=512, max_new_tokens=100)
    model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=100)
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_neuronx.neuron_dynamo_backend import get_dynamo_metrics

_SMALLEST = 16


def buckets(max_prompt_length: int, smallest: int = _SMALLEST) -> list[int]:
    """Powers of two from ``smallest``; the last is longer than any prompt, because
    prompts are always padded: without padding a graph needs no mask, and there would
    be twice as many."""
    lengths = [smallest]
    while lengths[-1] <= max_prompt_length:
        lengths.append(2 * lengths[-1])
    return lengths


def warm_up(
    model: Any,
    max_prompt_length: int,
    max_new_tokens: int,
    *,
    batch_size: int = 1,
    lengths: list[int] | None = None,
    **options: Any,
) -> int:
    """Compiles all that ``model.generate`` will need for prompts and answers of up to
    so many tokens, and makes ``generate`` keep to it.

    Args:
        model: a causal language model of Transformers on ``neuron``.
        max_prompt_length, max_new_tokens: of any call to come.
        batch_size: sequences of a call.
        lengths: prompts are padded on the left to the shortest of these that is
            longer; ``buckets(max_prompt_length)`` if None.
        options: of ``generate``, where these change what runs on the device, as
            ``num_beams=4`` or ``do_sample=True``.

    Returns the number of programs that were compiled: one for each length and one for
    a step of decoding.

    Raises ValueError for numbers that the model cannot hold.
    """
    from transformers import CompileConfig

    lengths = sorted(lengths or buckets(max_prompt_length))
    for name, number in {
        "max_prompt_length": max_prompt_length,
        "max_new_tokens": max_new_tokens,
        "batch_size": batch_size,
    }.items():
        if number < 1:
            raise ValueError(f"{name} must be positive, got {number}")
    if lengths[-1] <= max_prompt_length:
        raise ValueError(
            f"prompts of {max_prompt_length} tokens need a length above that, got "
            f"lengths={lengths}"
        )
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and max_prompt_length + max_new_tokens > limit:
        raise ValueError(
            f"{max_prompt_length} + {max_new_tokens} tokens are more than the model's "
            f"{limit} positions"
        )
    max_length = lengths[-1] + max_new_tokens
    config = model.generation_config
    config.cache_implementation = "static"
    config.max_cache_len = max_length
    config.compile_config = CompileConfig(
        backend="neuron", mode="default", fullgraph=False, dynamic=None
    )
    _pad_prompts(model, lengths, max_length)
    before = get_dynamo_metrics()["programs"]
    new = min(2, max_new_tokens)
    for length in lengths:
        ids = torch.ones(batch_size, length - 1, dtype=torch.int64)
        model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            **{"do_sample": False, **options},
            max_new_tokens=new,
            min_new_tokens=new,
        )
    return int(get_dynamo_metrics()["programs"] - before)


def _pad_prompts(model: Any, lengths: list[int], max_length: int) -> None:
    """Makes ``model.generate`` pad its prompts and cut the padding off its result."""
    original: Callable[..., Any] = getattr(model.generate, "unpadded", model.generate)

    @functools.wraps(original)
    def generate(inputs: torch.Tensor | None = None, *args: Any, **options: Any) -> Any:
        ids = options.pop("input_ids", inputs)
        if ids is None or "past_key_values" in options or args:
            return original(ids, *args, **options)
        count = ids.shape[1]
        fitting = [length for length in lengths if length > count]
        new = options.get("max_new_tokens")
        if not fitting or (new is not None and fitting[0] + new > max_length):
            raise ValueError(
                f"a prompt of {count} tokens"
                + ("" if new is None else f" and {new} new ones")
                + f" do not fit: prompts must be below {lengths[-1]} tokens, with a "
                f"cache of {max_length}; call torch_neuronx.generation.warm_up again"
            )
        padding = fitting[0] - count
        mask = options.pop("attention_mask", None)
        mask = torch.ones_like(ids) if mask is None else mask
        pad = model.generation_config.pad_token_id
        if pad is None:
            end = model.generation_config.eos_token_id
            pad = end[0] if isinstance(end, list) else end or 0
        options.setdefault("pad_token_id", pad)
        options.setdefault("prefill_chunk_size", fitting[0])
        if new is None and (length := options.get("max_length")) is not None:
            options["max_length"] = length + padding
        result = original(
            torch.nn.functional.pad(ids.cpu(), (padding, 0), value=pad),
            attention_mask=torch.nn.functional.pad(mask.cpu(), (padding, 0)),
            **options,
        )
        if isinstance(result, torch.Tensor):
            return result[:, padding:].to(ids.device)
        result.sequences = result.sequences[:, padding:].to(ids.device)
        return result

    generate.unpadded = original  # type: ignore[attr-defined]
    model.generate = generate
