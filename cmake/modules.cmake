# fk_module(FOLDER): all sources under src/FOLDER, without a main.cpp, as one OBJECT library.
#
# OBJECT, not STATIC: operators and implementations register themselves in static initialisers, and a linker drops
# objects of an archive that are not referenced. Sources are globbed so that a new operator needs no change of a build
# file.
set(FK_MODULES "" CACHE INTERNAL "")
set(FK_COMMON_LIBRARIES fmt::fmt nlohmann_json::nlohmann_json yaml-cpp Threads::Threads)

function(fk_sources out folder)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp")
  list(REMOVE_ITEM found "${CMAKE_SOURCE_DIR}/src/${folder}/main.cpp")
  if(FK_CUDA OR FK_CUDA_CHECK)
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.cu")
    list(APPEND found ${kernels})
  endif()
  # A file named *.x86.cpp or *.arm64.cpp uses instructions of that architecture only.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER found EXCLUDE REGEX "\\.arm64\\.cpp$")
  else()
    list(FILTER found EXCLUDE REGEX "\\.x86\\.cpp$")
  endif()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

function(fk_module folder)
  fk_sources(sources ${folder})
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" name "fk_${folder}")
  fk_objects(${name} ${folder} ${sources})
  set(FK_MODULES ${FK_MODULES} ${name} CACHE INTERNAL "")
endfunction()

function(fk_objects name folder)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
  target_link_libraries(${name} PUBLIC ${FK_COMMON_LIBRARIES})
  include("${CMAKE_SOURCE_DIR}/src/${folder}/module.cmake" OPTIONAL)  # if a folder needs more than its sources
  fk_compile_together(${name} ${folder})
  fk_compile_kernels_together(${name})
  fk_precompile(${name})
endfunction()

# fk_embed_text(TARGET PATH SYMBOL): the text of a file as `extern const std::string_view fk::SYMBOL`, so that the binary
# needs no path to the source tree.
function(fk_embed_text target path symbol)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  file(READ "${path}" text)
  set(generated "${CMAKE_BINARY_DIR}/embedded/${symbol}.cpp")
  file(CONFIGURE OUTPUT "${generated}" @ONLY CONTENT [[
// @symbol@, from a text file of the source tree.
#include <string_view>

namespace fk {
extern const std::string_view @symbol@;
constinit const std::string_view @symbol@ = R"fk_text(@text@)fk_text";
}  // namespace fk
]])
  target_sources(${target} PRIVATE "${generated}")
endfunction()

# fk_embed_texts(TARGET GLOB SYMBOL): the files that match a pattern as `extern const std::span<const std::pair<...>>
# fk::SYMBOL`, pairs of file name and text.
function(fk_embed_texts target pattern symbol)
  file(GLOB paths CONFIGURE_DEPENDS "${pattern}")
  set(entries "")
  foreach(path IN LISTS paths)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    file(READ "${path}" text)
    get_filename_component(name "${path}" NAME)
    string(APPEND entries "    {\"${name}\", R\"fk_text(${text})fk_text\"},\n")
  endforeach()
  set(generated "${CMAKE_BINARY_DIR}/embedded/${symbol}.cpp")
  file(CONFIGURE OUTPUT "${generated}" @ONLY CONTENT [[
// @symbol@, from text files of the source tree.
#include <span>
#include <string_view>
#include <utility>

namespace fk {
namespace {
constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
@entries@};
}  // namespace
extern const std::span<const std::pair<std::string_view, std::string_view>> @symbol@;
constinit const std::span<const std::pair<std::string_view, std::string_view>> @symbol@ = kTexts;
}  // namespace fk
]])
  target_sources(${target} PRIVATE "${generated}")
endfunction()

# fk_link(TARGET [MODULE...]): links these modules, or all of them, into an executable. Objects are listed one by one,
# so the linker drops none.
function(fk_link target)
  set(modules ${ARGN})
  if(NOT modules)
    set(modules ${FK_MODULES})
  endif()
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
  foreach(module IN LISTS modules)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${module}>)
    get_property(libraries TARGET ${module} PROPERTY FK_LIBRARIES)  # required by a module.cmake
    target_link_libraries(${target} PRIVATE ${libraries})
  endforeach()
  target_link_libraries(${target} PRIVATE ${FK_COMMON_LIBRARIES} ${CMAKE_DL_LIBS})
endfunction()

# fk_executable(TARGET FOLDER [MODULE...]): src/FOLDER/main.cpp with these modules or all of them. Unless the folder is a
# module itself, its other sources become a library of objects that only this program and its tests link.
function(fk_executable target folder)
  add_executable(${target} "${CMAKE_SOURCE_DIR}/src/${folder}/main.cpp")
  if(NOT TARGET fk_${folder})
    fk_sources(sources ${folder})
    fk_objects(fk_${folder} ${folder} ${sources})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:fk_${folder}>)
  endif()
  fk_link(${target} ${ARGN})
  install(TARGETS ${target} RUNTIME DESTINATION bin)
endfunction()

# fk_seal_calls(TARGET): every function of a library is looked up when the program starts, and the table of their
# addresses is read-only then. A candidate could change it otherwise, and run in place of a function that the runner calls.
function(fk_seal_calls target)
  target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
endfunction()
