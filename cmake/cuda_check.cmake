# The target cuda_check: the programs and the device's tests with the CUDA backend, linked with the existing objects of
# this build. It checks that the backend compiles and links on machines without a GPU; the programs are not run.
fk_sources(sources backend/cuda)
fk_objects(fk_backend_cuda backend/cuda ${sources})
set_property(TARGET fk_backend_cuda PROPERTY EXCLUDE_FROM_ALL ON)

add_executable(cuda_check_program EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/src/cli/main.cpp" $<TARGET_OBJECTS:fk_cli>)
fk_link(cuda_check_program ${FK_MODULES} fk_backend_cuda)
add_executable(cuda_check_runner EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/src/sandbox/main.cpp")
fk_link(cuda_check_runner ${runner_modules} fk_backend_cuda)
add_custom_target(cuda_check DEPENDS cuda_check_program cuda_check_runner)

if(FK_TESTS)
  find_package(GTest REQUIRED)
  set(tests "${CMAKE_SOURCE_DIR}/tests")
  file(GLOB sources CONFIGURE_DEPENDS "${tests}/backend/cuda/*.cpp")
  add_executable(cuda_check_tests EXCLUDE_FROM_ALL ${sources} "${tests}/conformance/compare.cpp"
                                                   "${tests}/conformance/guarded_tensor.cpp")
  fk_link(cuda_check_tests ${FK_MODULES} fk_backend_cuda)
  target_include_directories(cuda_check_tests PRIVATE "${CMAKE_SOURCE_DIR}")
  target_compile_definitions(cuda_check_tests PRIVATE FK_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                                      FK_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(cuda_check_tests PRIVATE GTest::gtest GTest::gtest_main)
  fk_precompile_test(cuda_check_tests)
  add_dependencies(cuda_check cuda_check_tests)
endif()
