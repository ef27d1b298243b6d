// Operators of sparse latent attention as functions, for blocks that fuse what lies between them: each runs the first
// kernel that takes the call.
#pragma once

#include "ops/l1/flash_mla_sparse_fwd.h"
#include "ops/l1/paged_mqa_logits.h"
#include "ops/l1/per_head_linear.h"
#include "ops/l1/top_k_per_row.h"

namespace fk::cuda {

void paged_mqa_logits(Context& ctx, const PagedMQALogits::Init& init, const View& q, const View& k_cache,
                      const View& weights, const View& seq_lens, const View& block_table, const OptView& cu_seqlens_q,
                      const View& logits);

void top_k_per_row(Context& ctx, const TopKPerRow::Init& init, const View& logits, const View& positions,
                   const View& indices);
// False where it does not take the call.
bool top_k_by_clusters(Context& ctx, const TopKPerRow::Init& init, const View& logits, const View& positions,
                       const View& indices);

// Why no kernel takes such sizes; empty if one does.
std::string_view flash_mla_sparse_refusal(const FlashMLASparseFwd::Init& init, DType dtype);
void flash_mla_sparse(Context& ctx, const FlashMLASparseFwd::Init& init, const View& q_nope, const View& q_pe,
                      const View& cache, const View& indices, const View& block_table, const OptView& cu_seqlens_q,
                      const View& out);

// Of few tokens. Why it does not take such a call; empty if it does.
std::string_view per_head_packs_refusal(const PerHeadLinear::Init& init, const View& weight, const View& x,
                                        const View& out);
void per_head_packs(Context& ctx, const PerHeadLinear::Init& init, const View& weight, const View& x, const View& out);

}  // namespace fk::cuda
