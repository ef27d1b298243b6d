# The target cuda_check: the programs and the device's tests with the CUDA backend, linked with the existing objects of
# this build. It checks that the backend compiles and links on machines without a GPU; the programs are not run.
fk_sources(sources backend/cuda)
fk_objects(fk_backend_cuda backend/cuda ${sources})
set_property(TARGET fk_backend_cuda PROPERTY EXCLUDE_FROM_ALL ON)

add_executable(cuda_check_program EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/src/cli/main.cpp" $<TARGET_OBJECTS:fk_cli>)
fk_link(cuda_check_program ${FK_MODULES} fk_backend_cuda)
add_executable(cuda_check_runner EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/src/sandbox/main.cpp")
fk_link(cuda_check_runner ${runner_modules} fk_backend_cuda)
fk_seal_calls(cuda_check_runner)
add_custom_target(cuda_check DEPENDS cuda_check_program cuda_check_runner)

if(FK_TESTS)
  find_package(GTest REQUIRED)
  set(tests "${CMAKE_SOURCE_DIR}/tests")
  # fk_cuda_check_test(NAME FOLDER [SOURCE]...): the tests of a folder, and sources of others.
  function(fk_cuda_check_test name folder)
    file(GLOB sources CONFIGURE_DEPENDS "${tests}/${folder}/*.cpp")
    add_executable(${name} EXCLUDE_FROM_ALL ${sources} ${ARGN})
    fk_link(${name} ${FK_MODULES} fk_backend_cuda)
    target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
    target_compile_definitions(${name} PRIVATE FK_SOURCE_DIR="${CMAKE_SOURCE_DIR}" FK_BINARY_DIR="${CMAKE_BINARY_DIR}")
    target_link_libraries(${name} PRIVATE GTest::gtest GTest::gtest_main)
    fk_precompile_test(${name})
  endfunction()
  fk_cuda_check_test(cuda_check_tests backend/cuda "${tests}/conformance/compare.cpp"
                     "${tests}/conformance/guarded_tensor.cpp" "${tests}/conformance/trial.cpp")
  add_dependencies(cuda_check cuda_check_tests)
  # Another, to be taken to a machine with a GPU; not part of the check.
  file(GLOB golden CONFIGURE_DEPENDS "${tests}/golden/*.cpp")
  fk_cuda_check_test(cuda_check_agreement conformance ${golden})
endif()
# Timed where there is a GPU; not part of the check.
add_executable(cuda_check_recurrence_bench EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/tools/bench/recurrence_bench.cpp")
fk_link(cuda_check_recurrence_bench ${FK_MODULES} fk_backend_cuda)
