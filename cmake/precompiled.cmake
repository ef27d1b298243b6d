# Headers parsed once for many sources: those of the standard library, fmt and JSON cost more than most of our own files.
#
# A precompiled header serves only sources compiled with its flags, so there is one per set of flags. It includes nothing
# of ours, and sources still include what they use: FK_PCH=OFF (the presets cpu-debug and cpu-asan), `make lint` and
# header_check compile without it, and tests/arch compares the names of std that a file uses with what it includes.
option(FK_PCH "Precompile the headers of the standard library, fmt, JSON and GoogleTest" ON)

# Every source pays for the functions these headers define, used or not: 0.2 s for this list, 0.7 s more for JSON.
set(FK_PCH_HEADERS
  <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <numeric> <optional> <set>
  <span> <string> <string_view> <thread> <utility> <variant> <vector> <fmt/format.h>)
set(FK_PCH_HEADERS_JSON ${FK_PCH_HEADERS} <chrono> <filesystem> <fstream> <fmt/ranges.h> <nlohmann/json.hpp>)

# Modules that compute nothing: light optimisation builds them in half the time, and nobody waits for them to run.
function(fk_light_optimisation target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
  set_property(TARGET ${target} PROPERTY FK_LIGHT _light)
endfunction()

# For modules most of whose sources use JSON.
function(fk_precompile_json target)
  set_property(TARGET ${target} PROPERTY FK_JSON _json)
endfunction()

# fk_precompile(TARGET): for an OBJECT library of ours.
function(fk_precompile target)
  if(NOT FK_PCH)
    return()
  endif()
  get_property(light TARGET ${target} PROPERTY FK_LIGHT)
  get_property(json TARGET ${target} PROPERTY FK_JSON)
  set(owner fk_precompiled${light}${json})
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT "${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp")
    target_link_libraries(${owner} PRIVATE ${FK_COMMON_LIBRARIES})
    if(light)
      fk_light_optimisation(${owner})
    endif()
    string(TOUPPER "FK_PCH_HEADERS${json}" headers)
    target_precompile_headers(${owner} PRIVATE ${${headers}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# fk_precompile_test(TARGET): for an executable, whose code is position-independent in another way.
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
