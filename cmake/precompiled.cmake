# Precompiled headers: those of the standard library, fmt and JSON take longer to parse than most of our own files.
#
# A precompiled header can be used only by sources with the same flags, so there is one per set of flags. All but one
# include none of our headers, and sources still include what they use: FK_PCH=OFF (the presets cpu-debug and cpu-asan), `make
# lint` and header_check compile without it, and tests/arch compares the names of std in a file with its includes.
option(FK_PCH "Precompile the headers of the standard library, fmt, JSON and GoogleTest" ON)

# Functions defined in these headers add to the compile time of every source, used or not: 0.2 s for this list, 0.7 s
# more for JSON.
set(FK_PCH_HEADERS
  <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <numeric> <optional> <set>
  <span> <string> <string_view> <thread> <utility> <variant> <vector> <fmt/format.h>)
set(FK_PCH_HEADERS_JSON ${FK_PCH_HEADERS} <chrono> <filesystem> <fstream> <fmt/ranges.h> <nlohmann/json.hpp>)
# The one with headers of ours: all kernels include these, and their objects have the same bytes without it.
set(FK_PCH_HEADERS_KERNELS ${FK_PCH_HEADERS} "${CMAKE_SOURCE_DIR}/src/ops/register.h"
    "${CMAKE_SOURCE_DIR}/src/backend/cpu/row_kernel.h")

# For modules without time-critical code: -O1 compiles them in half the time.
function(fk_light_optimisation target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
  set_property(TARGET ${target} PROPERTY FK_LIGHT _light)
endfunction()

# fk_full_optimisation(SOURCE...): sources of such a module that are time-critical all the same. They are compiled alone,
# with the precompiled header of the modules that are compiled with -O3.
function(fk_full_optimisation)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
  set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  if(FK_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    fk_precompiled_header("" "")
    set(header "${CMAKE_BINARY_DIR}/CMakeFiles/fk_precompiled.dir/cmake_pch.hxx")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -Winvalid-pch -include "${header}")
    set_property(SOURCE ${ARGN} APPEND PROPERTY OBJECT_DEPENDS "${header}.gch")
  endif()
endfunction()

# For modules in which most sources use JSON.
function(fk_precompile_json target)
  set_property(TARGET ${target} PROPERTY FK_HEADERS _json)
endfunction()

# For the kernels of a backend.
function(fk_precompile_kernels target)
  set_property(TARGET ${target} PROPERTY FK_HEADERS _kernels)
endfunction()

# The target that makes a precompiled header, for the properties FK_LIGHT and FK_HEADERS of the modules that use it.
function(fk_precompiled_header light headers)
  set(owner fk_precompiled${light}${headers})
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT "${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp")
    target_include_directories(${owner} PRIVATE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
    target_link_libraries(${owner} PRIVATE ${FK_COMMON_LIBRARIES})
    if(light)
      fk_light_optimisation(${owner})
    endif()
    string(TOUPPER "FK_PCH_HEADERS${headers}" list)
    target_precompile_headers(${owner} PRIVATE ${${list}})
  endif()
endfunction()

# fk_precompile(TARGET): for one of our OBJECT libraries.
function(fk_precompile target)
  if(NOT FK_PCH)
    return()
  endif()
  get_property(light TARGET ${target} PROPERTY FK_LIGHT)
  get_property(headers TARGET ${target} PROPERTY FK_HEADERS)
  fk_precompiled_header("${light}" "${headers}")
  target_precompile_headers(${target} REUSE_FROM fk_precompiled${light}${headers})
endfunction()

# fk_precompile_test(TARGET): for an executable, which has other flags for position-independent code.
function(fk_precompile_test target)
  fk_light_optimisation(${target})
  if(FK_PCH AND NOT TARGET fk_precompiled_test)
    add_executable(fk_precompiled_test "${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp")
    target_link_libraries(fk_precompiled_test PRIVATE ${FK_COMMON_LIBRARIES} GTest::gtest)
    fk_light_optimisation(fk_precompiled_test)
    target_precompile_headers(fk_precompiled_test PRIVATE ${FK_PCH_HEADERS_JSON} <gtest/gtest.h>)
  endif()
  if(FK_PCH)
    target_precompile_headers(${target} REUSE_FROM fk_precompiled_test)
  endif()
endfunction()
