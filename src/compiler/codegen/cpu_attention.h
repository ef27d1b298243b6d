// The C++ text of a kernel for attention on the CPU, and how its work is divided.
//
// Rows that see nearly the same keys are a tile: their queries lie along registers, and keys and values are read once
// for all of them. Where there are few rows, elements lie along registers, and the keys of one row are divided.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compiler/codegen/attention_program.h"
#include "compiler/codegen/region_source.h"

namespace fk {

// As in the text (cpu_attention_prelude.cpp).
struct CpuSeenKeys {
  int64_t first, last, source;
};
struct CpuAttentionItem {
  int64_t first_row, rows, first_key, last_key, kept;
};

// What the kernel is called for, one after the other. Behind the region's arrays it gets three more: CpuSeenKeys of all
// rows, with the phase as its first size; items; floats that items keep.
enum class CpuAttentionPhase : int64_t {
  kSee,     // rows: which keys they see
  kAttend,  // items, for each head of keys: number head * items + item; the second array's first size is the items
  kJoin,    // rows whose keys were divided, in the same way
};
inline constexpr size_t kCpuAttentionArrays = 3;

struct CpuAttentionWork {
  std::span<CpuAttentionItem> items, joins;
  int64_t kept = 0;  // items that keep what they found
};
// Depends on what rows see alone: results are the same with any number of threads. `memory`: as many items as
// most_cpu_attention_items() says.
CpuAttentionWork cpu_attention_work(const AttentionProgram& program, std::span<const CpuSeenKeys> seen,
                                    std::span<CpuAttentionItem> memory);
int64_t most_cpu_attention_items(std::span<const CpuSeenKeys> seen);
// Floats that one of them needs.
int64_t cpu_attention_kept(const AttentionProgram& program);

// As region_body().
std::string cpu_attention_body(const RegionText& region);
// All of the text that it needs: kernels with another one are other kernels.
std::string cpu_attention_version();

}  // namespace fk
