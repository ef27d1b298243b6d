# What the sources of this folder need beyond the flags of every module.
fk_embed_text(fk_models "${CMAKE_CURRENT_LIST_DIR}/catalog.yaml" kCatalogText)

# Dummy weights are defined to the bit: multiply, round, add, round. A fused multiply-add would round once.
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/dummy_weights.cpp" PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")

# Files, names and texts; the loops over all weights are optimised.
fk_light_optimisation(fk_models)
fk_precompile_json(fk_models)
foreach(name dummy_weights stored_layout convert finite)
  fk_full_optimisation("${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()

include(unicode)  # the tables of unicode.cpp
