# Contracts, oracles and compositions say what is computed; the time is spent in the backends. Light optimisation halves
# the build.
target_compile_options(fk_ops PRIVATE $<$<CONFIG:Release>:-O1>)
