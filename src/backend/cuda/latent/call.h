// LatentCall: one call of attention on latents, as plain numbers and addresses for a kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "core/tensor.h"

namespace fk::cuda {

struct LatentCall {
  const void* q_nope = nullptr;  // [T, H, latent]
  const void* q_pe = nullptr;    // [T, H, rope]
  const void* cache = nullptr;   // entries of latent + rope elements
  void* out = nullptr;           // [T, H, latent]
  float* lse = nullptr;          // or nullptr: [H, T]
  // Elements from token to token and from head to head; of lse from head to head.
  int64_t nope_token = 0, nope_head = 0, pe_token = 0, pe_head = 0, out_token = 0, out_head = 0, lse_head = 0;
  int64_t block_stride = 0, entry_stride = 0;  // of the cache, likewise

  const int32_t* seq_lens = nullptr;
  const int32_t* block_table = nullptr;
  int64_t table_width = 0;
  int page_bits = 0;
  const int32_t* cu_seqlens_q = nullptr;  // missing: one query per sequence
  // Of sparse attention: the keys that each query sees, by their position in the sequence, negative ones behind the
  // last; missing: all before it.
  const int32_t* indices = nullptr;
  int64_t index_stride = 0;
  int num_indices = 0;

  // Of a kernel that splits the keys: [T * H, splits, latent] and [T * H, splits], of which each split has its mean and
  // its lse.
  float* partial = nullptr;
  float* partial_lse = nullptr;
  int splits = 1;

  int sequences = 0;
  int tokens = 0;
  int heads = 0;
  int latent = 0;
  int rope = 0;
  float scale = 1;
  bool context_only = false;
  DType dtype = DType::kBF16;
};

// Tensor cores, for latents of 512 and rotated parts of 64 elements in bf16 and f16: a block reads each entry once for
// 64 rows of queries and heads.
std::string_view latent_tiles_refusal(const LatentCall& call);
// Into how many splits the keys of `tokens` queries should be divided, at most.
int latent_tiles_splits(const LatentCall& call);
void latent_tiles(const LatentCall& call, void* stream);

// A warp per query and head; any sizes up to 512 + 512.
std::string_view latent_rows_refusal(const LatentCall& call);
void latent_rows(const LatentCall& call, void* stream);

}  // namespace fk::cuda
