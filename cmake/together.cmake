# Neighbouring sources of a folder compiled as one: a template that they share is instantiated once instead of once in
# each of them.
#
# Names in the unnamed namespaces of a folder have to differ for it. -DFK_UNITY=OFF compiles every source alone: then a
# change of one costs less and a whole build more. The presets cpu-debug and cpu-asan do, and `make lint`.
option(FK_UNITY "Compile several sources of a folder together" ON)

# Not these: kernels, what times them and what judges them, whose code shall not depend on what lies beside it.
set(FK_APART backend/cpu backend/cuda measure validate)

function(fk_compile_together target folder)
  if(FK_UNITY AND NOT folder IN_LIST FK_APART)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()
