# Unity build: several sources of a folder are compiled as one, so that a template they share is instantiated only once.
#
# Names in the unnamed namespaces of a folder must differ for that. -DFK_UNITY=OFF compiles every source separately:
# then a build after a small change is faster and a whole build slower. The presets cpu-debug and cpu-asan and `make
# lint` use it.
option(FK_UNITY "Compile several sources of a folder together" ON)

# Not for kernels and for the code that measures the machine or compares elements: it must not depend on the sources next
# to it.
set(FK_APART backend/cpu backend/cuda measure validate)

function(fk_compile_together target folder)
  if(NOT folder IN_LIST FK_APART)
    set(most 28)
    if(folder STREQUAL "ops")  # small sources that share many headers
      set(most 48)
    endif()
    fk_unity(${target} ${most})
  endif()
endfunction()

# Tests of a folder: fewer at once, since who writes tests compiles a file again and again.
function(fk_compile_tests_together target)
  fk_unity(${target} 8)
endfunction()

# Parts of the same size, so that none is left with one or two sources.
function(fk_unity target most)
  if(NOT FK_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(joined "")
  foreach(source IN LISTS sources)
    get_source_file_property(alone "${source}" SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)  # of its own
    get_source_file_property(definitions "${source}" COMPILE_DEFINITIONS)
    if(source MATCHES "\\.cpp$" AND NOT alone AND NOT options AND NOT definitions)
      list(APPEND joined "${source}")
    endif()
  endforeach()
  list(LENGTH joined count)
  math(EXPR parts "(${count} + ${most} - 1) / ${most}")
  if(parts GREATER 0)
    math(EXPR together "(${count} + ${parts} - 1) / ${parts}")
    fk_join(${target} ${together} cpp ${joined})
  endif()
endfunction()

# fk_join(TARGET NUMBER ENDING SOURCE...): so many sources at a time are compiled as one, which includes them.
#
# CMake's own unity build does the same for C++, but writes absolute paths: then a compiler cache finds nothing that
# another clone of the project has compiled.
function(fk_join target number ending)
  set(sources ${ARGN})
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(all ${target} SOURCES)
  list(REMOVE_ITEM all ${sources})  # of this target alone: others may compile one of them by itself
  set_property(TARGET ${target} PROPERTY SOURCES ${all})
  set(part 0)
  while(sources)
    set(text "")
    foreach(unused RANGE 1 ${number})
      if(sources)
        list(POP_FRONT sources source)
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}")
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_BINARY_DIR}/together")
        string(APPEND text "#include \"${source}\"\n")
      endif()
    endforeach()
    set(generated "${CMAKE_BINARY_DIR}/together/${target}_${part}.${ending}")
    file(CONFIGURE OUTPUT "${generated}" CONTENT "${text}" @ONLY)
    target_sources(${target} PRIVATE "${generated}")
    math(EXPR part "${part} + 1")
  endwhile()
endfunction()

# Small CUDA kernels of single operators are compiled in eights: nvcc reads the headers of a source seven times for two
# architectures, which is nearly all of their time. Device code does not depend on the sources next to it.
function(fk_compile_kernels_together target)
  if(NOT FK_UNITY)
    return()
  endif()
  set(small_bytes 4096)
  set(most 8)
  get_target_property(sources ${target} SOURCES)
  set(small "")
  foreach(source IN LISTS sources)
    if(source MATCHES "/l1/[^/]*\\.cu$")
      file(SIZE "${source}" bytes)
      if(bytes LESS small_bytes)
        list(APPEND small "${source}")
      endif()
    endif()
  endforeach()
  fk_join(${target} ${most} cu ${small})
endfunction()
