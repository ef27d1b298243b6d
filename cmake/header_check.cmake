# header_check: checks that headers of src/ compile alone.
#
# x.cpp includes x.h first (tests/arch checks it), so compiling x.cpp checks x.h, unless a precompiled header is
# included before it (for that case see cmake/precompiled.cmake). For each other header a source with one line is
# written into the build folder, and compiled without a precompiled header.
function(fk_header_check)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/*.h")
  set(sources "")
  foreach(header IN LISTS headers)
    file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}/src" "${header}")
    string(REGEX REPLACE "\\.h$" ".cpp" source "${header}")
    if(EXISTS "${source}" OR (name MATCHES "^backend/cuda/" AND NOT FK_CUDA))
      continue()
    endif()
    # Headers for one architecture have the same suffix as its sources.
    if((name MATCHES "\\.x86\\.h$" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64") OR
       (name MATCHES "\\.arm64\\.h$" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64"))
      continue()
    endif()
    string(REPLACE "/" "_" unit "${name}")
    set(unit "${CMAKE_BINARY_DIR}/header_check/${unit}.cpp")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${name}\"\n")
    list(APPEND sources "${unit}")
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(header_check OBJECT ${sources})
  target_include_directories(header_check PRIVATE "${CMAKE_SOURCE_DIR}/src")
  target_compile_options(header_check PRIVATE -O0 -g0)
  target_link_libraries(header_check PRIVATE ${FK_COMMON_LIBRARIES})
endfunction()
