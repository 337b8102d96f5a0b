# Each command sets up what it needs. Rust, Python >= 3.11 and make are enough. The programs are in tests/tools.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.NOTPARALLEL:
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*## .*/\1/p' $(firstword $(MAKEFILE_LIST))) gpu-present gpu-site gpu-wheel simulated-wheel
ifndef VERBOSE
.SILENT:
endif

PYTHON ?= python3
export CARGO ?= cargo
# Else pip ends each installation with two lines about a newer pip.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# uv installs no bytecode. Python keeps that of the modules that are imported, unless it is told not to.
export PYTHONDONTWRITEBYTECODE :=

# Makes environments, builds wheels and installs them. With `WHEEL=PATH`, some targets take that wheel.
environment = $(PYTHON) tests/tools/environment.py
wheel_for = $(environment) $(if $(WHEEL),install $(1) $(WHEEL),wheel $(1) $(2))
python := .venv/bin/python
# Written by tests/tools/opencl. It sets variables if the system has no OpenCL driver.
OPENCL := build/opencl.env
with_opencl = set -a; source $(OPENCL); set +a;
IMAGES := build/images
UPSTREAM := build/upstream
# Two processes, with each file in one of them. Each loads all frameworks, which takes 2 GB.
PYTEST := -m pytest -n 2 --dist loadfile
tests_of = $(1:%=tests/python/%.py)

##@ First day

help: ## list the commands; `make VERBOSE=1 COMMAND` shows what it runs
	awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-26s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
demo: .venv-demo/.made $(OPENCL) $(IMAGES)/.made ## microscopy images through the frameworks that install quickly
	$(environment) wheel .venv-demo
	$(with_opencl) .venv-demo/bin/python examples/demo/demo.py --images $(IMAGES)
demo-all: wheel $(OPENCL) $(IMAGES)/.made ## the same with every framework that runs on a CPU
	$(with_opencl) $(python) examples/demo/demo.py --images $(IMAGES)
pipeline: wheel $(OPENCL) $(IMAGES)/.made ## a 16-bit stack through declared functions of three frameworks
	$(with_opencl) $(python) examples/pipeline/pipeline.py --images $(IMAGES)
gallery: wheel $(OPENCL) ## more than twenty pipelines, each compared with one without arraybridge
	$(with_opencl) $(python) examples/gallery/run.py --pictures docs/gallery
test: test-rust test-cupy test-python ## the tests: Rust, then Python
check: check-python crossings ## the tests that go into breadth: commands, documents, other libraries, every two options together

clean: ## remove everything that make and the builds created
	rm -rf build target .venv .venv-* .pytest_cache .hypothesis

##@ Every change

lint: wheel ## check formatting, lints and type stubs
	tests/tools/lint
test-rust: .venv/.made ## the Rust tests
	tests/tools/embedded $(CARGO) test --workspace

# CuPy imports without a GPU, and has wheels for Linux.
CUPY := $(if $(filter Linux-x86_64 Linux-aarch64,$(shell uname -sm | tr ' ' -)),build/cupy)
test-cupy: wheel $(CUPY:%=%/.made) ## the tests of CuPy that need no GPU
	$(if $(CUPY),PYTHONPATH=$(CUPY) $(python) -m pytest $(call tests_of,device/test_cupy tables/test_signatures) -k cupy)
# Folders whose tests repeat what others test, with more commands, libraries and versions.
BREADTH := $(addprefix tests/python/,commands compat docs real tools)
test-python: wheel seventh $(OPENCL) ## the Python tests
	$(with_opencl) ARRAYBRIDGE_SEVENTH_PYTHON=.venv-seventh/bin/python $(python) $(PYTEST) $(BREADTH:%=--ignore %)
check-python: wheel $(OPENCL) $(IMAGES)/.made ## the Python tests of BREADTH
	$(with_opencl) $(python) $(PYTEST) $(BREADTH)
crossings: wheel $(OPENCL) ## every two values of tests/crossings in a program, which NumPy judges; with TRIPLES=1 every three
	$(with_opencl) $(python) $(if $(TRIPLES),tests/crossings/crossings.py --triples --slow,-m pytest tests/crossings)

# What shortcuts take the place of: reading the memory of an array, and making an array of it.
WITHOUT_SHORTCUTS := $(addprefix convert/test_,crashes detect errors explain lifetime matrix policy property \
	several_hosts shared sharing special*) declared/test_declared dlpack/test_* rust/test_claims rust/test_rust_functions slices/test_slices
test-without-shortcuts: wheel $(OPENCL) ## the Python tests of conversions, with ARRAYBRIDGE_FAST=0
	$(with_opencl) ARRAYBRIDGE_FAST=0 $(python) $(PYTEST) $(call tests_of,$(WITHOUT_SHORTCUTS))

seventh: wheel .venv-seventh/.made ## add the tables of tests/seventh, and more, as a newcomer does it
	$(python) tests/tools/newcomer.py
examples: wheel $(OPENCL) ## build and test the crates under examples/
	tests/tools/examples
docs: wheel .venv-docs/.made ## build the documentation site into build/site-docs; a warning is an error
	.venv-docs/bin/python -m sphinx -q -W -d build/doctrees docs build/site-docs
	echo "build/site-docs/index.html"
frozen: .venv-frozen/.made $(if $(WHEEL),,wheel) ## freeze a program by PyInstaller with nothing but the wheel's hook, and run it
	$(environment) install .venv-frozen $(or $(WHEEL),build/wheels/.venv/*.whl)
	.venv-frozen/bin/python tests/frozen/run.py --out build/frozen
wheel: .venv/.made ## build the wheel for the tests: once, whatever the number of commands that need it
	$(environment) wheel .venv

##@ GPUs, real and simulated

# Without a GPU, this stops before anything is installed or built. With `GPU_PYTHON=python3`, that interpreter has the
# frameworks and pytest, nothing is fetched, and the wheel (`WHEEL=PATH`) goes into a folder of its own.
# ARRAYBRIDGE_EXTENSIONS names a folder with the library of tests/extension, for a machine without cargo. `BUDGET=300`
# ends each step early enough that all take no longer than that many seconds.
GPU_SITE := $(CURDIR)/build/gpu/site
gpu: gpu-present $(if $(GPU_PYTHON),gpu-site,gpu-wheel $(OPENCL)) ## run everything that needs a GPU, and write docs/gpu-report.md
	$(if $(GPU_PYTHON),PYTHONPATH=$(GPU_SITE) $(GPU_PYTHON),$(with_opencl) .venv-gpu/bin/python) tests/gpu/gpu_run.py $(BUDGET:%=--budget %)
gpu-present:
	$(or $(GPU_PYTHON),$(PYTHON)) tests/gpu/gpu_present.py
gpu-wheel: .venv-gpu/.made
	$(call wheel_for,.venv-gpu)
gpu-site:
	$(if $(WHEEL),,$(error GPU_PYTHON needs a WHEEL that is already built))
	rm -rf $(GPU_SITE)
	$(GPU_PYTHON) -m pip install --quiet --no-index --no-deps --target $(GPU_SITE) $(WHEEL)

test-simulated-gpu: simulated-cuda simulated-wheel ## the tests that need a GPU, on two simulated ones: no evidence about a device
	tests/tools/simulated test $(SIMULATED)
	$(if $(SIMULATED),,tests/tools/simulated allocators)
test-simulated-allocators: simulated-cuda simulated-wheel ## all of these tests with each allocator that users choose
	tests/tools/simulated allocators --all $(SIMULATED)
simulated-calls: simulated-cuda simulated-wheel ## write the table of CUDA calls in docs/simulated-gpu.md
	tests/tools/simulated calls
simulated-cuda: .venv-simulated/.made ## build the simulated CUDA, where its sources are newer; needs g++
	.venv-simulated/bin/python tests/simulated_cuda/build.py build/simulated_cuda
# Not a release build, so that it takes less long and checks more.
simulated-wheel: .venv-simulated/.made
	$(call wheel_for,.venv-simulated,--profile dev)

##@ Release

OLDEST := $(addprefix convert/test_,matrix special* sharing policy fast) declared/test_declared \
	declared/test_end_of_process tables/test_signatures slices/test_slices

# TensorFlow 2.19 has no wheel for a Python later than 3.12.
test-oldest: .venv-oldest/.made $(OPENCL) ## conversions, dtypes and slices with the oldest versions that pyproject.toml promises
	$(environment) wheel .venv-oldest
	$(with_opencl) .venv-oldest/bin/python $(PYTEST) $(call tests_of,$(OLDEST))

NEWEST ?= 3.14 3.15
test-newest: .venv/.made $(OPENCL) ## conversions, declared functions and slices on the CPythons of NEWEST, got from Debian's archive
	tests/tools/newest $(NEWEST)
test-free-threaded: .venv/.made ## the tests of test-newest and eight threads at once on a CPython without a GIL, built from Debian's source
	tests/tools/newest 3.13t

# Release builds take long; `make wheels PROFILE=dev` takes less.
wheels: .venv/.made ## build the wheels and the sdist, and try each with every CPython on this machine
	CARGO_TARGET_DIR=$(CURDIR)/build/extension $(python) tests/tools/wheels.py --maturin .venv/bin/maturin --profile $(or $(PROFILE),release)

PLATFORMS := aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc
platforms: ## check that the package compiles for other platforms (needs rustup), and for free-threaded CPythons
	tests/tools/platforms $(PLATFORMS)
aarch64: ## the Rust tests that need no Python on Linux on aarch64; needs rustup, gcc-aarch64-linux-gnu and qemu-user
musl: ## the same tests with musl; needs rustup
aarch64 musl:
	tests/tools/elsewhere $@

# Downloads 2 GB. `make tables TABLES="paddle warp"` checks some, and `make tables PARTNERS=99` all pairs.
tables: .venv/.made .venv-tables/.made $(OPENCL) ## build the wheel with every table, check each framework, and print a summary
	tests/tools/tables $(TABLES)

AUDIT := yes
supply-chain: ## build with the oldest Rust and the oldest dependencies, and audit all of them, unless AUDIT= is given
	tests/tools/supply-chain $(if $(AUDIT),,--without-audit)

# Needs cargo-public-api. After an intended change, the second file takes the place of the first.
public-api: .venv/.made ## compare what arraybridge-runtime exports with tests/public-api.txt; needs a nightly toolchain
	tests/tools/embedded $(CARGO) +$(or $(NIGHTLY),nightly) public-api -sss --package arraybridge-runtime --target-dir build/public-api >build/public-api.txt
	diff -u tests/public-api.txt build/public-api.txt

# OpenHCS is large, and each version has its own environment. The wheel takes the place of the arraybridge that it
# installs: a module that only the original has would otherwise stay, and be imported. The first run compiles OpenCL
# kernels for minutes. `make consumer OPENHCS=0.8.6 CONSUMER="--every 10"` runs one version, and calls fewer functions.
OPENHCS := 0.5.15 0.8.6
consumer: $(OPENHCS:%=consumer-%) ## OpenHCS with this package, compared with the original
$(OPENHCS:%=consumer-%): consumer-%: .venv-consumer-%/.made $(OPENCL) $(IMAGES)/.made
	.venv-consumer-$*/bin/python -m pip uninstall --quiet --yes arraybridge
	$(call wheel_for,.venv-consumer-$*)
	tests/tools/original consumer $* $(CONSUMER)
upstream: wheel $(OPENCL) $(UPSTREAM)/.made ## the original package's tests and its documentation's examples
	tests/tools/original upstream
conformance: wheel $(OPENCL) ## score this wheel beside the Python original, and write docs/conformance.md
	tests/tools/original conformance 0.2.8 0.2.11 0.5.2
site: docs ## ask the documentation site questions in a browser (Chromium), and run the pages that need more libraries
	$(environment) install .venv-docs --group site
	.venv-docs/bin/python -m pytest tests/site
	QT_QPA_PLATFORM=offscreen .venv-docs/bin/python -m pytest tests/python/docs/test_docs.py -k every_page
figures: wheel $(OPENCL) ## draw the figures of the documentation again
	$(with_opencl) $(python) tests/tools/figures.py --write

##@ Research

mutants: .venv/.made ## break the rules in tests/mutants one by one, and check that a test fails
	$(python) tests/tools/mutants.py
mutants-simulated-gpu: simulated-cuda ## the same with the rules of streams and devices, and the tests on the simulated CUDA
	.venv-simulated/bin/python tests/tools/mutants.py --simulated

# Of soak, and of each target of fuzz.
SECONDS := 600
sanitize: .venv/.made ## the Rust tests under AddressSanitizer
sanitize-threads: .venv/.made ## the Rust tests that use threads under ThreadSanitizer; needs a nightly toolchain with rust-src
sanitize-python: .venv/.made ## the extension module under AddressSanitizer and LeakSanitizer, with NumPy and torch; needs gcc
valgrind: wheel ## the tests of lifetimes under valgrind, with NumPy only
miri: .venv/.made ## the Rust tests of tensors, claims, layouts and XLA's frames under Miri; needs a nightly toolchain with miri and rust-src
lifetime: wheel $(OPENCL) ## the tests of lifetimes with Python's debug allocator and its development mode
soak: wheel $(OPENCL) ## use the package from 16 threads for SECONDS (600), and check values, memory and descriptors
fuzz: .venv/.made ## feed tables, casts, foreign capsules and the test for overlaps with random input, for SECONDS each
# The reports of valgrind name lines, which a release does not have.
valgrind: export CARGO_PROFILE_RELEASE_DEBUG := line-tables-only
valgrind: export CARGO_PROFILE_RELEASE_STRIP := none
sanitize sanitize-threads sanitize-python valgrind miri lifetime soak fuzz:
	tests/tools/soundness $@ $(SECONDS)
bench: wheel $(OPENCL) $(UPSTREAM)/.made ## compare the speed with calls by hand: tables, build/bench/bench.{json,svg}
	$(environment) install .venv --group benchmarks
	$(with_opencl) $(python) tests/benchmarks/bench.py --out build/bench --upstream $(UPSTREAM)
growth: wheel ## count the instructions per item with 100 to 100,000 items, which must not grow; needs valgrind
	$(python) tests/benchmarks/growth.py
authors: wheel ## compare declared Rust functions with nanobind, TVM FFI and rust-numpy: docs/extensions.md
	$(environment) install .venv --group authors
	$(python) tests/benchmarks/authors/run.py --write
workloads: wheel $(OPENCL) $(UPSTREAM)/.made ## compare whole pipelines with an expert's code: time, memory, and our own share
	$(with_opencl) $(python) tests/benchmarks/workloads/pipelines.py --sample --out build/bench --upstream $(UPSTREAM)
dask: wheel .venv-dask/.made ## a plate of images on a Dask cluster that loses a worker
	.venv-dask/bin/python examples/dask/plate.py
ray: wheel .venv-ray/.made ## the same plate on Ray, which loses a worker too
	.venv-ray/bin/python examples/ray/plate_on_ray.py

# Set-up. An environment has the group of its name in pyproject.toml, and is brought up to date when that file is newer.
# Those beside the environment of the tests find what they lack there, and have its interpreter, whatever PYTHON is now.
%/.made: pyproject.toml
	$(environment) make $(@D) $(or $(group),$(@D:.venv-%=%)) $(patsubst %/.made,--beside %,$(filter %/.made,$^)) $(how)
	touch $@

.venv/.made: group = test
.venv-dask/.made .venv-docs/.made .venv-ray/.made .venv-seventh/.made .venv-tables/.made: .venv/.made

# JAX's newest wheels need Python 3.12. Where the given one is older, another one is looked for.
.venv-simulated/.made: how = --python "$$($(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' \
	&& echo $(PYTHON) || bash tests/tools/interpreter 3.13 3.12)" --how --no-deps
lock: ## write tests/constraints.txt, the versions that the environments get; NEWEST=1 takes the newest ones without it
	$(environment) lock

build/cupy/.made: .venv/.made
	$(environment) install .venv --no-deps --upgrade --target $(@D) "cupy-cuda13x>=14"
	touch $@

$(UPSTREAM)/.made: .venv/.made
	$(environment) install .venv --target $(@D) arraybridge==0.2.11
	touch $@

$(OPENCL): tests/tools/opencl
	PYTHON=$(PYTHON) tests/tools/opencl $@

# StarDist's wheel contains real 16-bit fluorescence images. It is downloaded, but not installed.
$(IMAGES)/.made:
	$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 \
	--implementation cp --platform manylinux_2_28_x86_64 --dest $(@D) stardist==0.9.2
	touch $@
