# The command line: nothing here is worth the optimiser's time.
fk_light_optimisation(fk_cli)
fk_precompile_json(fk_cli)
target_compile_definitions(fk_cli PRIVATE FK_VERSION="${PROJECT_VERSION}")
target_link_libraries(fk_cli PRIVATE CLI11::CLI11)
# The script of the paths `hf` and `torch_compile`, run by a Python that has PyTorch.
fk_embed_text(fk_cli "${CMAKE_SOURCE_DIR}/tools/peers/ttft_peer.py" kTtftPeerScript)
