# Texts the program carries with it: the headers candidates are compiled against and the bodies create-stubs writes.
fk_embed_text(fk_candidate "${CMAKE_SOURCE_DIR}/include/fastkernels/kernel_abi.h" kKernelAbiHeader)
fk_embed_text(fk_candidate "${CMAKE_SOURCE_DIR}/include/fastkernels/candidate.h" kCandidateHeader)
fk_embed_texts(fk_candidate "${CMAKE_CURRENT_LIST_DIR}/stubs/*.in" kStubBodies)
