# `make` builds and describes this machine, `make test` runs every test, `make help` lists the rest.
PRESET ?= cpu-release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CUDA_ARCH ?= 90a

build := build/$(PRESET)
binary := $(build)/fastkernels

# Fast tests wait a fifth of their time, for processes they start; two more of them than cores use it.
run_fast_tests = tools/run_tests.sh $(build) $$(($(JOBS) + 2)) -L fast
run_slow_tests = tools/run_tests.sh $(build) $(JOBS) -LE fast

.PHONY: all build test asan install dist deb format lint deps clean help
.DEFAULT_GOAL := all

all: build
	$(binary) doctor --quick
	FASTKERNELS_CANDIDATE_DIR=tasks/candidate/examples $(binary) kernels --target rms_norm --filter decode-8
	FASTKERNELS_CANDIDATE_DIR=tasks/candidate/examples $(binary) kernels --target softmax --filter vocabulary
	$(binary) history --limit 2
	@echo 'Next: $(binary) dashboard; docs/write-a-candidate.md; $(binary) create-stubs --target rms_norm'

build: $(build)/build.ninja
	cmake --build $(build) --target fastkernels fastkernels-runner fastkernels-tracking fastkernels-share -j $(JOBS)

# Only the first configure is ours; afterwards ninja runs cmake again when a CMake file or the set of sources changes.
$(build)/build.ninja: CMakePresets.json | deps
	cmake --preset $(PRESET)
	@touch $@

deps:
	@tools/install_deps.sh build

# Configured again, since what was just installed (MPI) may not have been there before.
test: $(build)/build.ninja
	@tools/install_deps.sh test
	cmake --preset $(PRESET)
	cmake --build $(build) -j $(JOBS)
	$(run_fast_tests)
	$(run_slow_tests)
	$(MAKE) --no-print-directory cuda-check

# Compiles the CUDA backend and links it with the objects of the CPU build; running it takes a GPU and
# tools/gpu_check.sh. .ci/run compiles it for two architectures, which takes two fifths longer.
.PHONY: cuda-check
cuda-check:
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
	  cmake --preset cpu-release -DFK_CUDA_CHECK=ON '-DFK_CUDA_ARCH=$(CUDA_ARCH)' && \
	  cmake --build build/cpu-release -j $(JOBS) --target cuda_check; \
	else \
	  echo 'cuda-check: there is no nvcc here, so the CUDA backend was not compiled; install the CUDA toolkit to check it.'; \
	fi

asan:
	$(MAKE) PRESET=cpu-asan asan-fast

.PHONY: asan-fast
asan-fast: $(build)/build.ninja
	cmake --build $(build) -j $(JOBS)
	$(run_fast_tests)

install: build
	cmake --install $(build) --prefix $(PREFIX)

# build/fastkernels-VERSION-ARCHITECTURE.tar.gz, which runs from any folder.
dist: build
	cpack --config $(build)/CPackConfig.cmake -G TGZ -B build

deb: build
	@tools/install_deps.sh deb
	cpack --config $(build)/CPackConfig.cmake -G DEB -B build

format:
	@tools/install_deps.sh lint
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' '*.js' | xargs clang-format -i

# After a build, because sources include headers that the build makes. What was clean and has
# not changed since is left out.
lint: build
	@tools/install_deps.sh lint
	tools/lint.py $(build) -j $(JOBS)

clean:
	rm -rf build

help:
	@echo 'make            install what is missing, build, describe this machine, judge and time two example candidates'
	@echo 'make test       install what is missing, build, run every test'
	@echo 'make asan       the fast tests under address and undefined-behaviour sanitizers'
	@echo 'make install    put fastkernels, its alias kb_nano, completions and manual page under PREFIX ($(PREFIX))'
	@echo 'make dist       a tarball that runs from any folder; make deb: a Debian package; both are left in build/'
	@echo 'make lint       clang-tidy over src/; make format: clang-format over every source'
	@echo 'make clean      remove build/'
	@echo 'Variables: PRESET ($(PRESET)), PREFIX, DESTDIR, JOBS ($(JOBS)), CUDA_ARCH ($(CUDA_ARCH))'
