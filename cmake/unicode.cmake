# Unicode tables for the tokenizer, generated at build time by tools/unicode/make_tables.py.
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
