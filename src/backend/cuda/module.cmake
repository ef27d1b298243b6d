# The runtime is linked statically, so that the program starts, and says what is missing, on machines without it.
set_property(TARGET fk_backend_cuda APPEND PROPERTY FK_LIBRARIES CUDA::cudart_static CUDA::cublasLt)
target_link_libraries(fk_backend_cuda PUBLIC CUDA::cudart_static CUDA::cublasLt)
string(REPLACE ";" " and " architectures "${FK_CUDA_ARCH}")  # for a sentence
target_compile_definitions(fk_backend_cuda PRIVATE FK_CUDA_ARCH="${architectures}")
# NCCL is loaded at run time; only its header is needed here.
find_path(FK_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(FK_NCCL_INCLUDE)
  target_include_directories(fk_backend_cuda SYSTEM PRIVATE "${FK_NCCL_INCLUDE}")
else()
  set_source_files_properties("${CMAKE_SOURCE_DIR}/src/backend/cuda/device/nccl_communicator.cpp"
                              PROPERTIES HEADER_FILE_ONLY ON)
endif()
