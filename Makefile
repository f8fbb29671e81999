# One word each, on a fresh Debian 12 or newer: make demo | test | test-intel | sanitize | bench | lint | docs | build | clean
# Everything is set up in .venv and build/make; system packages come by apt where it can be used (tools/system-packages).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build/make
JOBS ?= $(shell nproc)
# pytest's processes: each uses all cores in what it computes, so a few are enough.
WORKERS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))
# Tests share the cores: threads that wait for work leave them to each other.
test test-intel sanitize-address sanitize-thread: export OMP_WAIT_POLICY ?= passive

# What the library and the package are made of: a change in any of it makes the next command rebuild.
SOURCES := $(shell find src kernels pylayout cmake tests/c -type f ! -name '*.so*' ! -name '*.pyc' 2>/dev/null) \
           CMakeLists.txt pyproject.toml

.PHONY: demo test sanitize bench lint format docs build clean
.DELETE_ON_ERROR:

demo: build
	$(BIN)/pylayout profile resnet50 --report report.html

test: build
	@rc=0; \
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) || rc=1; \
	PYLAYOUT_BUILD_DIR=$(CURDIR)/$(BUILD) $(BIN)/pytest -n $(WORKERS) --dist worksteal || rc=1; \
	exit $$rc

# The OpenCL tests once more, on Intel's runtime from pip alone: `make test` takes PoCL where it is installed, which has
# a cache of compiled kernels of its own. What processors are never offered (matrix units, kernels for GPUs alone) and what
# is about sources (tuning points, races) is tested once, there.
.PHONY: test-intel
test-intel: export PYLAYOUT_OPENCL_PATH = $(CURDIR)/$(VENV)/lib
test-intel: export OCL_ICD_VENDORS = /nonexistent
test-intel: export PYLAYOUT_TEST_DEVICE = opencl:0
test-intel: build
	@$(BIN)/python tools/requirements opencl | $(BIN)/pip install -q -r /dev/stdin
	@$(BIN)/ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) --tests-regex test_opencl \
	    --exclude-regex '_points_|_mma|_matrix_units|_images|_races'
	@$(BIN)/pytest tests/test_program_cache.py

# The C tests under AddressSanitizer with UndefinedBehaviorSanitizer, then those with threads under ThreadSanitizer.
# Without those that go through every point of the kernels' tuning spaces: they are not built.
sanitize: sanitize-address sanitize-thread

.PHONY: sanitize-address sanitize-thread
sanitize-address sanitize-thread: sanitize-%: $(VENV)/venv.stamp
	@echo "testing with -fsanitize=$*"; mkdir -p build
	@$(BIN)/cmake -S . -B build/$* -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	    -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DPYLAYOUT_PYTHON=OFF -DPYLAYOUT_TESTS=ON \
	    -DPYLAYOUT_SANITIZE=$* >build/$*.log || { cat build/$*.log; exit 1; }
	@$(BIN)/cmake --build build/$* --parallel $(JOBS)
	@$(BIN)/ctest --test-dir build/$* --output-on-failure -j $(JOBS)

bench: build
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

build: $(VENV)/build.stamp

# The package is installed as a user would install it, and the build leaves the same libraries in pylayout/, so that
# `import pylayout` works in this folder too.
$(VENV)/build.stamp: $(VENV)/venv.stamp $(SOURCES)
	@echo "building pylayout"
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/pip install -q --no-build-isolation --no-deps --force-reinstall \
	    --config-settings=build-dir=$(BUILD) --config-settings=cmake.define.PYLAYOUT_INPLACE=ON \
	    --config-settings=cmake.define.PYLAYOUT_TESTS=ON .
	@touch $@

# Intel's OpenCL runtime from pip takes PoCL's place where that could not be installed.
$(VENV)/venv.stamp: pyproject.toml tools/system-packages tools/requirements
	@tools/system-packages $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Python packages into $(VENV)"
	@$(BIN)/pip install -q --upgrade pip
	@{ $(BIN)/python tools/requirements build run test; echo cmake; echo ninja; \
	  ls /etc/OpenCL/vendors 2>/dev/null | grep -Eq '^(pocl|intel).*[.]icd$$' || \
	  $(BIN)/python tools/requirements opencl; } | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

$(VENV)/lint.stamp: $(VENV)/venv.stamp
	@$(BIN)/python tools/requirements lint | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

$(VENV)/docs.stamp: $(VENV)/venv.stamp
	@$(BIN)/python tools/requirements docs | $(BIN)/pip install -q -r /dev/stdin
	@touch $@

clean:
	rm -rf build $(VENV) pylayout/*.so pylayout/*.so.*
