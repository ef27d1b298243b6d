# Contracts, oracles and compositions say what is computed; the time is spent in the backends. Light optimisation halves
# the build.
fk_light_optimisation(fk_ops)
# Except for the loops in which tests and judgements spend most of their time.
foreach(name algebra/evaluate l1/attention_oracle l1/linear_recurrence)
  fk_full_optimisation("${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()
