# header_check: compiles every header of src/ that no source proves to stand alone.
#
# x.cpp includes x.h first (tests/arch checks it), so compiling x.cpp is the proof for x.h, where no precompiled header
# stands before it (cmake/precompiled.cmake says what is checked instead). For the other headers one line of source each
# is written into the build folder, and compiled without one.
function(fk_header_check)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/*.h")
  set(sources "")
  foreach(header IN LISTS headers)
    file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}/src" "${header}")
    string(REGEX REPLACE "\\.h$" ".cpp" source "${header}")
    if(EXISTS "${source}" OR (name MATCHES "^backend/cuda/" AND NOT FK_CUDA))
      continue()
    endif()
    # Headers of one architecture's instructions are named like its sources.
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
