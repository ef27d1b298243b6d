# Contracts, oracles and compositions say what is computed; the time is spent in the backends. Light optimisation halves
# the build.
fk_light_optimisation(fk_ops)
