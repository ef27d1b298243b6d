# Flags every target is compiled with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(FK_CCACHE ccache)
if(FK_CCACHE)
  # Without these two ccache refuses sources that use a precompiled header; none of ours has __TIME__ in it.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${FK_CCACHE}")
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>")
endif()

add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror>")
# These look through the optimiser and accuse the standard library's own code in GCC 12 and 13; the sanitizers of
# cpu-asan look for the same mistakes where they happen.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow>")
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overread>")
# `omp simd` marks the reductions the compiler may reorder; no OpenMP runtime is linked.
set(FK_CODE_FLAGS -fopenmp-simd -fno-math-errno -fno-trapping-math)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${FK_CODE_FLAGS}>")
# GCC collects its garbage whenever its heap has doubled, from 128 MiB on; our sources need little more, so it need not.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>")
# -O3 vectorises; asserts stay in every build through FK_CHECK, so NDEBUG changes nothing of ours.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

if(FK_SANITIZE)
  list(APPEND FK_CODE_FLAGS -fsanitize=${FK_SANITIZE})
  add_compile_options(-fsanitize=${FK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FK_SANITIZE})
  # The checks a sanitizer inserts make GCC's flow analysis see paths that do not exist.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endif()
