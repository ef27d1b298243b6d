# The CUDA toolkit, and the flags of every .cu file.
set(CMAKE_CUDA_ARCHITECTURES "${FK_CUDA_ARCH}")
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 12.8 REQUIRED)
if(FK_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${FK_CCACHE}")
endif()

# CMake 3.25 does not know the standard C++20 for CUDA, so it is an option. Concepts and constexpr library functions are
# used on both sides. Host code inside .cu files keeps the warnings of the others, but for those nvcc's own stubs raise.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;--extended-lambda;-lineinfo;-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter;-Werror=all-warnings>")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
