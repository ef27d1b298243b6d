// Attention of many queries: keys and values are packed once into blocks, then tiles of queries iterate over the blocks
// with an online softmax. A kernel defines the layout of a block and the arithmetic; the rest is here.
//
// Keys that a query of a tile must not see get the weight zero. So a NaN or infinity in a value reaches all queries of
// a tile that reads its block, also those that must not see it; finite values do not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/attention/scores.h"
#include "ops/forward_context.h"
#include "ops/l1/flash_attn_prefill.h"

namespace fk {

inline constexpr int64_t kMaxTileRows = 32;
inline constexpr int64_t kKeysPerBlock = 64;

struct PackBlockTask {
  const void* const* k;  // addresses of `keys` rows
  const void* const* v;
  int64_t keys;  // at most kKeysPerBlock; the rest of the block is filled with zeros
  int64_t head_size;
  int64_t value_size;
  DType dtype;
  std::byte* block;  // of kernel.block_bytes, 64-byte aligned
};

// Rows of a tile are queries of the heads that share one kv head. Row r sees keys first[r] .. last[r]-1.
struct AttendTask {
  const void* const* q;  // kernel.tile_rows addresses; rows past `rows` repeat the last one
  void* const* out;      // `rows` addresses
  const int32_t* first;  // kernel.tile_rows
  const int32_t* last;
  const float* sinks;  // the score of each row's sink, kernel.tile_rows; null: there are none
  int64_t rows;
  int64_t head_size;
  int64_t value_size;
  DType dtype;
  ScoreRule rule;
  const std::byte* blocks;  // blocks first_block .. last_block-1: those in which some row sees some key
  int64_t first_block, last_block;
  std::byte* scratch;  // of kernel.scratch_bytes, 64-byte aligned
  // Of each row, the logarithm of its sum of exponentials, -infinity without keys: kernel.tile_rows; null: not wanted.
  float* lse = nullptr;
  bool float_out = false;  // `out` is f32 whatever the dtype
};

struct PrefillKernel {
  int64_t tile_rows;  // at most kMaxTileRows
  size_t (*block_bytes)(int64_t head_size, int64_t value_size);
  size_t (*scratch_bytes)(int64_t head_size, int64_t value_size);
  void (*pack)(const PackBlockTask&);
  void (*attend)(const AttendTask&);
};

struct PrefillArgs {
  View q, k, v, cu_seqlens_q, cu_seqlens_k;
  OptView block_table;
  View out;
  OptView sinks;  // f32 [H]
};

void prefill_attention(Context& ctx, const PrefillKernel& kernel, const FlashAttnPrefill::Init& init,
                       const PrefillArgs& args);
std::string_view refuse_prefill(const FlashAttnPrefill::Init& init, Args args);

extern const PrefillKernel kPrefillTiles;     // any CPU, bf16 and f32, computes in f32
extern const PrefillKernel kPrefillAmxBf16;   // x86-64 with AMX, bf16, no sinks
extern const PrefillKernel kPrefillNeonBf16;  // aarch64 with BFMMLA, bf16

}  // namespace fk
