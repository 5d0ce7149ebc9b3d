# SPDX-License-Identifier: Apache-2.0
#
# A thin front for people. CMake is the build system: nothing here knows a source file.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
MAKEFLAGS += --no-print-directory
BUILD = tools/progress build/vram "about two minutes on one core" cmake --build build -j $(JOBS) --target

.PHONY: all run quick t test test-long analyze coverage mutate bench format docs install uninstall deb wheels release clean help

all: ## build the library, the command, the examples and the tests into build/
	@cmake -S . -B build
	@cmake --build build -j $(JOBS)

run: ## build the command, a tour on the best device, what there is, a race and a picture on a simulated H200
	@tools/setup.sh run
	@cmake -S . -B build --log-level=NOTICE
	@$(BUILD) vram_command
	@tools/welcome build/vram

quick: ## while working: the unit tests of less than half a second each, in build-dev (under a minute once it is built)
	@tools/quick

t: ## one unit test, built and run in build-dev: make t T=space
	@test -n "$(T)" || { echo "which one? make t T=space"; exit 2; }
	@tools/quick $(T)

test: ## all tests: as users build it, and checking itself under ASan + UBSan and TSan (minutes)
	@tools/setup.sh test
	@tools/run-tests release asan tsan

test-long: ## the same, longer: every fault, more seeds, fuzzing, the other architecture, a fresh Debian (needs root)
	@tools/setup.sh test
	@tools/setup.sh fresh
	@VRAM_TEST_LONG=1 tools/run-tests release dev asan tsan
	@tools/fuzz --runs 10000000
	@tools/setup.sh other-arch || true # what is missing is named, and the check skips itself
	@tools/other-arch-check
	@tools/setup.sh analyze || true # the same
	@tools/other-compilers
	@tools/abi-check || test $$? -eq 77
	@tools/fresh-check

analyze: ## static analysis by gcc, clang, clang-tidy and cppcheck: 0 findings (an hour of one core)
	@tools/setup.sh analyze
	@tools/analyze

coverage: ## lines and branches that the tests reach; fails under 95 % of any tier's lines
	@tools/setup.sh coverage
	@tools/run-tests coverage; tests=$$?; \
	    tools/coverage build-coverage && exit $$tests

mutate: ## small changes of the sources, one at a time: how many the unit tests notice (an hour; PATHS, SAMPLE)
	@tools/setup.sh test
	@tools/mutate --sample $(or $(SAMPLE),200) --fail-under 85 \
	    $(or $(PATHS),src/core src/device src/mem src/xfer src/share)

bench: ## measure this machine: what the drivers cost, and what a pool makes of it
	@tools/setup.sh run
	@cmake -S . -B build --log-level=NOTICE
	@$(BUILD) bench_baseline bench_prices vram_command
	@build/bench/baseline
	@build/bench/prices
	@build/vram bench alloc

format: ## lay out all sources with clang-format 14
	@tools/setup.sh format
	@tools/format

docs: ## write anew what is made: API reference, file map, the picture of ratios, the list of skips, the table of models
	@tools/api-reference
	@tools/file-map
	@cmake -S . -B build --log-level=NOTICE
	@$(BUILD) vram_command fake_cuda fake_hip fake_metal fake_opencl
	@tools/ratio-picture build/vram
	@tools/skips build
	@tools/estimate-table build/vram

install: ## build and install: make install PREFIX=/usr/local
	@tools/setup.sh run
	@cmake -S . -B build --log-level=NOTICE -DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX))
	@$(BUILD) vram vram_static vram_compute vram_compute_static vram_model vram_model_static vram_extras vram_command
	@cmake --install build

uninstall: ## remove what make install put there: make uninstall PREFIX=/usr/local
	@tools/uninstall $(abspath $(PREFIX))

deb: ## Debian packages of the three libraries, the headers, the command and the Python package, in build-deb/*.deb
	@tools/setup.sh deb
	@JOBS=$(JOBS) tools/deb

wheels: ## wheels for every Linux with glibc 2.28, x86_64 and aarch64, in build-wheel/dist, tried with every Python here
	@tools/setup.sh wheel
	@rm -f build-wheel/dist/*.whl
	@JOBS=$(JOBS) tools/wheel build-wheel/dist
	@tools/wheel-check build-wheel/dist/*.whl

release: ## what a release publishes, of the last commit, in build-release: wheels, sources, packages, crate, SBOM, sums
	@tools/setup.sh release
	@JOBS=$(JOBS) tools/release

clean: ## remove every build folder
	rm -rf build build-dev build-asan build-tsan build-coverage build-fuzz build-deb build-release build-wheel build-aarch64 build-x86_64 build-analyze build-other build-abi build-mutate

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
