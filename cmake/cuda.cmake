# The CUDA toolkit, and the flags of every .cu file.
set(CMAKE_CUDA_ARCHITECTURES "${FK_CUDA_ARCH}")
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 12.8 REQUIRED)
if(FK_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${FK_CCACHE_LAUNCHER})
endif()

# CMake 3.25 has no option of nvcc for C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
# nvcc 13 cannot evaluate fmt's consteval constructors; format strings are then checked at run time.
add_compile_definitions("$<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1;FMT_CONSTEVAL=>")
# constexpr functions (the random streams of core) run on both sides. Host code in .cu files has the usual warnings,
# except those that nvcc's own stubs cause.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;-lineinfo;-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter;-Werror=all-warnings>")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
