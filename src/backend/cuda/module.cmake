# The runtime is linked statically, so that the program starts, and says what is missing, on machines without it.
set_property(TARGET fk_backend_cuda APPEND PROPERTY FK_LIBRARIES CUDA::cudart_static CUDA::cublasLt)
target_link_libraries(fk_backend_cuda PUBLIC CUDA::cudart_static CUDA::cublasLt)
string(REPLACE ";" " and " architectures "${FK_CUDA_ARCH}")  # for a sentence
target_compile_definitions(fk_backend_cuda PRIVATE FK_CUDA_ARCH="${architectures}")
