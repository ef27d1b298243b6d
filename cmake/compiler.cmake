# Compiler flags of all targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(FK_CCACHE ccache)
if(FK_CCACHE)
  # Without the first setting ccache does not cache sources with a precompiled header; none of our sources uses
  # __TIME__. With the second a clone in another folder finds the same objects.
  set(FK_CCACHE_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" "${FK_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FK_CCACHE_LAUNCHER})
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>")
endif()

add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror>")
# After optimisation these warnings report false errors in the standard library of GCC 12 and 13; the sanitizers of
# cpu-asan find the same errors at run time.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow>")
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overread>")
# `omp simd` marks the reductions the compiler may reorder; no OpenMP runtime is linked.
set(FK_CODE_FLAGS -fopenmp-simd -fno-math-errno -fno-trapping-math)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${FK_CODE_FLAGS}>")
# GCC runs its garbage collector when its heap has doubled, from 128 MiB on; our sources need little more, so it is not
# worth the time.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>")
# -O3 vectorises. Our assertions are FK_CHECK, which NDEBUG does not disable.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

if(FK_SANITIZE)
  list(APPEND FK_CODE_FLAGS -fsanitize=${FK_SANITIZE})
  add_compile_options(-fsanitize=${FK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FK_SANITIZE})
  # The checks inserted by a sanitizer lead to false warnings of GCC's flow analysis.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endif()
