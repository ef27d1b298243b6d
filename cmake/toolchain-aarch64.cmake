# Cross-compiles for 64-bit Arm Linux and runs the result, tests included, under qemu. See tools/cross/aarch64.sh.
#
# FK_SYSROOT, from the environment or the cache, is the folder with the target's C library and our dependencies
# (tools/cross/sysroot.sh creates one). Without it the compiler's own search paths are used.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(FK_SYSROOT "$ENV{FK_SYSROOT}" CACHE PATH "Root file system of the target")
set(FK_QEMU_CPU "max" CACHE STRING "CPU for qemu to act; max has every extension qemu knows, bf16 among them")
# try_compile projects read this file again, without our cache and possibly without our environment.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FK_SYSROOT FK_QEMU_CPU)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${FK_QEMU_CPU})
if(FK_SYSROOT)
  set(CMAKE_SYSROOT "${FK_SYSROOT}")
  list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -L "${FK_SYSROOT}")
endif()

# Programs are searched on this machine, everything else in the target's folder.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
