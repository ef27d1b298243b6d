# Graphs are made once per model and hold no numbers.
fk_light_optimisation(fk_graph)
