# These time kernels: compiled alone, so that their code does not depend on what lies beside them.
set(timers "${CMAKE_CURRENT_LIST_DIR}/kernels/pair_timer.cpp" "${CMAKE_CURRENT_LIST_DIR}/kernels/calls_alone.cpp")
set_source_files_properties(${timers} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
