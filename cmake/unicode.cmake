# Unicode tables for the tokenizer, generated at build time by tools/unicode/make_tables.py.
# What stands in PATH may be a shim (pyenv, asdf), which runs a dozen shells each time; what it starts is used instead.
find_program(FK_PYTHON3 python3)
mark_as_advanced(FK_PYTHON3)
if(FK_PYTHON3 AND NOT Python3_EXECUTABLE)
  execute_process(COMMAND "${FK_PYTHON3}" -c "import sys; print(sys.executable)" OUTPUT_VARIABLE python
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${python}")
    set(Python3_EXECUTABLE "${python}")
  endif()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(FK_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${FK_GENERATED_DIR}")
add_custom_command(
  OUTPUT "${FK_GENERATED_DIR}/unicode_tables.inc"
  COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/tools/unicode/make_tables.py" "${FK_GENERATED_DIR}/unicode_tables.inc"
  DEPENDS "${CMAKE_SOURCE_DIR}/tools/unicode/make_tables.py"
  COMMENT "Writing the Unicode tables"
  VERBATIM)
target_sources(fk_models PRIVATE "${FK_GENERATED_DIR}/unicode_tables.inc")
target_include_directories(fk_models PRIVATE "${FK_GENERATED_DIR}")
