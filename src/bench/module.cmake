# These time kernels: compiled alone, so that their code does not depend on what lies beside them.
set(timers "${CMAKE_CURRENT_LIST_DIR}/kernels/pair_timer.cpp" "${CMAKE_CURRENT_LIST_DIR}/kernels/calls_alone.cpp")
set_source_files_properties(${timers} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# The others start processes, wait for them and write down what they say.
fk_light_optimisation(fk_bench)
fk_precompile_json(fk_bench)
fk_full_optimisation(${timers})
# Boost.Beast takes seconds to compile; alone, it does so beside the others, and its names meet no others.
set(beast "${CMAKE_CURRENT_LIST_DIR}/e2e/openai_client.cpp")
set_source_files_properties(${beast} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# GCC takes the two halves of a coroutine frame's allocation for different ones.
set_property(SOURCE ${beast} APPEND PROPERTY COMPILE_OPTIONS -Wno-mismatched-new-delete)
