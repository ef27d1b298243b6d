# fastkernels-mpi.so, where MPI is installed; a build without it is its absence (mpi_communicator.cpp says so then).
# CMake's own search would need the C compiler; the wrapper of every MPI says the flags.
find_program(FK_MPICXX NAMES mpicxx mpic++)
if(FK_MPICXX)
  add_library(fastkernels-mpi MODULE "${CMAKE_SOURCE_DIR}/src/backend/mpi_library/mpi_functions.cpp")
  set_target_properties(fastkernels-mpi PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  target_include_directories(fastkernels-mpi PRIVATE "${CMAKE_SOURCE_DIR}/src")
  execute_process(COMMAND "${FK_MPICXX}" --showme:compile OUTPUT_VARIABLE flags RESULT_VARIABLE failed ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(link_question --showme:link)
  if(failed)  # not Open MPI but MPICH or a relative of it
    execute_process(COMMAND "${FK_MPICXX}" -compile_info OUTPUT_VARIABLE flags ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(link_question -link_info)
  endif()
  execute_process(COMMAND "${FK_MPICXX}" ${link_question} OUTPUT_VARIABLE link ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX MATCHALL "-I[^ ]+" includes "${flags}")
  string(REGEX MATCHALL "-[lL][^ ]+" libraries "${link}")
  list(TRANSFORM includes REPLACE "^-I" "")
  target_include_directories(fastkernels-mpi SYSTEM PRIVATE ${includes})
  target_link_libraries(fastkernels-mpi PRIVATE ${libraries})
  # Not in packages, which must not depend on MPI: cmake --install build/... --component mpi adds it.
  install(TARGETS fastkernels-mpi LIBRARY DESTINATION lib/fastkernels COMPONENT mpi EXCLUDE_FROM_ALL)
endif()
