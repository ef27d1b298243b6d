#!/bin/sh
# Builds everything for 64-bit Arm on another machine and runs the tests under qemu. This tests correctness, not speed.
#
#   apt-get install g++-aarch64-linux-gnu qemu-user
#   tools/cross/sysroot.sh ~/arm64-root
#   FK_SYSROOT=~/arm64-root tools/cross/aarch64.sh [ctest options, e.g. -R Matmul]
#
# FK_QEMU_CPU (default max) is the emulated CPU: cortex-a72 has no bf16 instructions. FK_JOBS limits the compilers at
# once.
set -eu

: "${FK_SYSROOT:?is not set; fill a folder with tools/cross/sysroot.sh and set FK_SYSROOT to it}"
cd "$(dirname "$0")/../.."
build=build/aarch64

cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE=cmake/toolchain-aarch64.cmake \
  -DFK_SYSROOT="$FK_SYSROOT" -DFK_QEMU_CPU="${FK_QEMU_CPU:-max}"
cmake --build $build --parallel "${FK_JOBS:-$(nproc)}"
ctest --test-dir $build --output-on-failure "$@"
