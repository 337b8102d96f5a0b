# `make demo` and `make test` set up all that they need: Rust, Python >= 3.11 and make are enough.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
CARGO ?= cargo
VENV := .venv
DEMO_VENV := .venv-demo
SEVENTH_VENV := .venv-seventh
OLDEST_VENV := .venv-oldest
UPSTREAM := build/upstream
IMAGES := build/images
EXAMPLES := image-filters geotiff

# A stamp is named after the text of the requirements: an edit makes a new one necessary.
stamp = $(1)/.stamp-$(shell cat $(2) | cksum | cut -d' ' -f1)
TEST_STAMP := $(call stamp,$(VENV),tests/requirements.txt)
DEMO_STAMP := $(call stamp,$(DEMO_VENV),examples/demo/requirements.txt)
SEVENTH_STAMP := $(call stamp,$(SEVENTH_VENV),tests/seventh/requirements.txt)
OLDEST_STAMP := $(call stamp,$(OLDEST_VENV),tests/requirements-oldest.txt)

# The file is written by tests/tools/opencl, and names an OpenCL driver that the system lacks.
OPENCL_ENV := build/opencl.env
with_opencl = set -a; source $(OPENCL_ENV); set +a;

.NOTPARALLEL:
.PHONY: help demo demo-all pipeline test test-rust test-python test-oldest seventh examples bench lint clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

demo: $(DEMO_STAMP) $(OPENCL_ENV) $(IMAGES)/.stamp ## a microscopy image through every framework of a light environment
	$(call install,$(DEMO_VENV))
	@$(with_opencl) $(DEMO_VENV)/bin/python examples/demo/demo.py --images $(IMAGES)

demo-all: $(TEST_STAMP) $(OPENCL_ENV) $(IMAGES)/.stamp ## the same with every framework that runs on a CPU
	$(call install,$(VENV))
	@$(with_opencl) $(VENV)/bin/python examples/demo/demo.py --images $(IMAGES)

pipeline: $(TEST_STAMP) $(OPENCL_ENV) $(IMAGES)/.stamp ## a 16 bit stack through declared functions of three frameworks
	$(call install,$(VENV))
	@$(with_opencl) $(VENV)/bin/python examples/pipeline/pipeline.py --images $(IMAGES)

test: test-rust seventh test-python ## all tests: Rust, then Python, then a table for a seventh framework

# The tests embed an interpreter: it is that of the environment, and finds NumPy there.
test-rust: $(TEST_STAMP)
	@python=$$(realpath -s $(VENV)/bin/python); \
	libdir=$$($$python -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))'); \
	site=$$($$python -c 'import sysconfig; print(sysconfig.get_path("platlib"))'); \
	PYO3_PYTHON=$$python LD_LIBRARY_PATH=$$libdir$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH} \
	PYTHONPATH=$$site $(CARGO) test --workspace

test-python: $(TEST_STAMP) $(OPENCL_ENV) $(IMAGES)/.stamp
	$(call install,$(VENV))
	@$(with_opencl) ARRAYBRIDGE_SEVENTH_PYTHON=$(SEVENTH_VENV)/bin/python \
	$(VENV)/bin/python -m pytest

# TensorFlow 2.19 has no wheel for a Python later than 3.12.
test-oldest: $(OLDEST_STAMP) $(OPENCL_ENV) ## the conversions with the oldest versions that pyproject.toml promises
	$(call install,$(OLDEST_VENV))
	@$(with_opencl) $(OLDEST_VENV)/bin/python -m pytest tests/python/test_matrix.py \
	tests/python/test_special.py tests/python/test_sharing.py tests/python/test_declared.py \
	tests/python/test_signatures.py

# The wheel once more, with one more table and no other change.
seventh: $(SEVENTH_STAMP) tests/seventh/tvm_ffi.toml
	@echo "building the wheel with tests/seventh/tvm_ffi.toml"
	@rm -rf build/seventh-wheels
	@ARRAYBRIDGE_FRAMEWORKS=$(CURDIR)/tests/seventh/tvm_ffi.toml CARGO_TARGET_DIR=$(CURDIR)/build/seventh \
	$(VENV)/bin/maturin build --quiet --profile dev -i $(SEVENTH_VENV)/bin/python -o build/seventh-wheels
	@$(SEVENTH_VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps build/seventh-wheels/*.whl

examples: $(TEST_STAMP) $(OPENCL_ENV) ## the extension crates under examples/, built as wheels and tested
	$(call install,$(VENV))
	@rm -rf build/example-wheels
	@for crate in $(EXAMPLES); do \
		echo "building examples/$$crate"; \
		CARGO_TARGET_DIR=$(CURDIR)/build/extension $(VENV)/bin/maturin build --quiet --profile dev \
		-m examples/$$crate/Cargo.toml -i $(VENV)/bin/python -o build/example-wheels; \
	done
	@$(VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps build/example-wheels/*.whl
	@$(VENV)/bin/python -m pip install --quiet -r examples/requirements.txt
	@$(with_opencl) $(VENV)/bin/python -m pytest $(EXAMPLES:%=examples/%/tests) examples/tests

# matplotlib goes into the environment of the tests; the Python original into a folder of its own.
bench: $(TEST_STAMP) $(OPENCL_ENV) $(UPSTREAM)/.stamp ## speed against calls by hand: a table, build/bench/bench.{json,svg}
	$(call install,$(VENV))
	@$(VENV)/bin/python -m pip install --quiet -r tests/benchmarks/requirements.txt
	@$(with_opencl) $(VENV)/bin/python tests/benchmarks/bench.py --out build/bench --upstream $(UPSTREAM)

$(UPSTREAM)/.stamp: $(TEST_STAMP)
	@echo "installing the Python original into $(UPSTREAM)"
	@$(VENV)/bin/python -m pip install --quiet --target $(UPSTREAM) arraybridge==0.2.11
	@touch $@

lint: $(TEST_STAMP) ## formatting and lints of Rust and Python, stubs against the module
	$(CARGO) fmt --check
	PYO3_PYTHON=$$(realpath -s $(VENV)/bin/python) $(CARGO) clippy --workspace --all-targets -- -D warnings
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(call install,$(VENV))
	$(VENV)/bin/python -m mypy.stubtest arraybridge

clean: ## remove what make and the builds made
	rm -rf build target $(VENV) $(DEMO_VENV) $(SEVENTH_VENV) $(OLDEST_VENV) .pytest_cache .hypothesis

# Build the wheel for an environment and install it there, as a user gets it.
define install
@echo "building the wheel for $(1)"
@rm -rf build/wheels/$(1)
@$(1)/bin/maturin build --quiet --release -i $(1)/bin/python -o build/wheels/$(1)
@$(1)/bin/python -m pip install --quiet --force-reinstall --no-deps build/wheels/$(1)/*.whl
endef

define venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PYTHON must be 3.11 or newer: make PYTHON=python3.12 ...")'
@echo "setting up $(1) from $(2)"
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
@$(1)/bin/python -m pip install --quiet -r $(2)
@rm -f $(1)/.stamp-*
@touch $@
endef

$(TEST_STAMP): ; $(call venv,$(VENV),tests/requirements.txt)
$(OLDEST_STAMP): ; $(call venv,$(OLDEST_VENV),tests/requirements-oldest.txt)
$(DEMO_STAMP): ; $(call venv,$(DEMO_VENV),examples/demo/requirements.txt)

# The other frameworks come from the environment of the tests, which this one looks into last.
$(SEVENTH_STAMP): $(TEST_STAMP)
	@test -x $(SEVENTH_VENV)/bin/python || $(PYTHON) -m venv $(SEVENTH_VENV)
	@site() { $$1 -c 'import sysconfig; print(sysconfig.get_path("platlib"))'; }; \
	site $(CURDIR)/$(VENV)/bin/python >"$$(site $(SEVENTH_VENV)/bin/python)/tests.pth"
	$(call venv,$(SEVENTH_VENV),tests/seventh/requirements.txt)

$(OPENCL_ENV): tests/tools/opencl
	@mkdir -p build
	@PYTHON=$(PYTHON) bash tests/tools/opencl $@

# Real 16 bit fluorescence images come inside the wheel of StarDist. It is unpacked, not installed.
$(IMAGES)/.stamp:
	@mkdir -p $(IMAGES)
	@$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 \
	--implementation cp --platform manylinux_2_28_x86_64 --dest $(IMAGES) stardist==0.9.2
	@touch $@
