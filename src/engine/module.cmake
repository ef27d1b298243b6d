# It plans steps and starts kernels; what reads a row of logits or an image is optimised.
fk_light_optimisation(fk_engine)
foreach(name sampler log_probabilities denoiser image_encoder)
  fk_full_optimisation("${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()
