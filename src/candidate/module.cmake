# Texts the program carries with it: the headers candidates are compiled against and the bodies create-stubs writes.
fk_embed_text(fk_candidate "${CMAKE_SOURCE_DIR}/include/fastkernels/kernel_abi.h" kKernelAbiHeader)
fk_embed_text(fk_candidate "${CMAKE_SOURCE_DIR}/include/fastkernels/candidate.h" kCandidateHeader)
fk_embed_texts(fk_candidate "${CMAKE_CURRENT_LIST_DIR}/stubs/*.in" kStubBodies)

# Texts, a compiler and a call per kernel; the bridge is on the way of every call.
fk_light_optimisation(fk_candidate)
fk_full_optimisation("${CMAKE_CURRENT_LIST_DIR}/bridge.cpp")
