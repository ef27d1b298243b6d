# Texts the program carries with it: the headers candidates are compiled against and the bodies create-stubs writes.
fk_embed_text(fk_candidate "${CMAKE_SOURCE_DIR}/include/fastkernels/kernel_abi.h" kKernelAbiHeader)
fk_embed_text(fk_candidate "${CMAKE_SOURCE_DIR}/include/fastkernels/candidate.h" kCandidateHeader)
fk_embed_texts(fk_candidate "${CMAKE_CURRENT_LIST_DIR}/stubs/*.in" kStubBodies)
# What calls candidates and reads the clock is compiled alone, so that its code does not depend on what lies beside it.
file(GLOB callers "${CMAKE_CURRENT_LIST_DIR}/runner/*.cpp")
set_source_files_properties(${callers} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
