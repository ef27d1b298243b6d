// FK_SIMD_CLONES before a function: compiled once per x86-64 level, and the best one this CPU has is chosen at load
// time.
//
// For plain loops the compiler vectorises. On aarch64 the base instruction set already has the vectors it needs. Not
// under the thread sanitizer: clones are chosen before its runtime is ready.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define FK_SIMD_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FK_SIMD_CLONES
#endif
