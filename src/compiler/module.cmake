# It makes texts and plans, once per model. What runs in every step, and what times regions, is optimised.
fk_light_optimisation(fk_compiler)
foreach(name plan/plan_executor plan/region_trial plan/step_trial)
  fk_full_optimisation("${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()
