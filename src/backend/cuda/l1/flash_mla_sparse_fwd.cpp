// FlashMLASparseFwd on CUDA: tensor cores with a query's list split over blocks; a row-by-row kernel for other sizes.
#include "ops/l1/flash_mla_sparse_fwd.h"

#include <bit>

#include "backend/cuda/l1/latent_parts.h"
#include "backend/cuda/latent/call.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class CudaFlashMLASparse : public FlashMLASparseFwd {
 public:
  using FlashMLASparseFwd::FlashMLASparseFwd;

 protected:
  LatentCall call_of(Args args) const {
    const View &nope = *args[0], &pe = *args[1], &cache = *args[2], &indices = *args[3], &table = *args[4],
               &out = *args[6];
    return {.q_nope = nope.data(),
            .q_pe = pe.data(),
            .cache = cache.data(),
            .out = out.data(),
            .nope_token = nope.stride(0),
            .nope_head = nope.stride(1),
            .pe_token = pe.stride(0),
            .pe_head = pe.stride(1),
            .out_token = out.stride(0),
            .out_head = out.stride(1),
            .block_stride = cache.stride(0),
            .entry_stride = cache.stride(1),
            .block_table = static_cast<const int32_t*>(table.data()),
            .table_width = table.stride(0),
            .page_bits = std::countr_zero(static_cast<uint64_t>(cache.size(1))),
            .cu_seqlens_q = args[5] ? static_cast<const int32_t*>(args[5]->data()) : nullptr,
            .indices = static_cast<const int32_t*>(indices.data()),
            .index_stride = indices.stride(0),
            .num_indices = static_cast<int>(init_.top_k),
            .sequences = static_cast<int>(table.size(0)),
            .tokens = static_cast<int>(nope.size(0)),
            .heads = static_cast<int>(init_.num_heads),
            .latent = static_cast<int>(init_.kv_lora_rank),
            .rope = static_cast<int>(init_.qk_rope_head_dim),
            .scale = static_cast<float>(init_.softmax_scale),
            .dtype = nope.dtype()};
  }
};

class FlashMLASparseTiles final : public CudaFlashMLASparse {
 public:
  using CudaFlashMLASparse::CudaFlashMLASparse;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? latent_tiles_refusal(call_of(args)) : why;
  }
  void forward(Context& ctx, View q_nope, View q_pe, View cache, View indices, View block_table, OptView cu_seqlens_q,
               View out) override {
    const OptView args[] = {q_nope, q_pe, cache, indices, block_table, cu_seqlens_q, out};
    LatentCall call = call_of(args);
    call.splits = latent_tiles_splits(call);
    Arena::Mark scratch = ctx.arena.mark();
    if (call.splits > 1) {
      int64_t rows = q_nope.size(0) * init_.num_heads * call.splits;
      // In one tensor: an arena that needed two chunks replaces them at its next reset, which a recording forbids.
      call.partial = ctx.arena.make({{rows * (init_.kv_lora_rank + 1)}, DType::kF32}).ptr<float>();
      call.partial_lse = call.partial + rows * init_.kv_lora_rank;
    }
    latent_tiles(call, ctx.stream);
    ctx.arena.release(scratch);
  }
};

class FlashMLASparseRows final : public CudaFlashMLASparse {
 public:
  using CudaFlashMLASparse::CudaFlashMLASparse;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? latent_rows_refusal(call_of(args)) : why;
  }
  void forward(Context& ctx, View q_nope, View q_pe, View cache, View indices, View block_table, OptView cu_seqlens_q,
               View out) override {
    const OptView args[] = {q_nope, q_pe, cache, indices, block_table, cu_seqlens_q, out};
    latent_rows(call_of(args), ctx.stream);
  }
};

FK_IMPLEMENTATION(FlashMLASparseFwd, FlashMLASparseTiles, "cuda.split_tiles", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(FlashMLASparseFwd, FlashMLASparseRows, "cuda.warp_per_row", DeviceKind::kCuda, 100, nullptr);

}  // namespace

std::string_view flash_mla_sparse_refusal(const FlashMLASparseFwd::Init& init, DType dtype) {
  LatentCall call;
  call.latent = static_cast<int>(init.kv_lora_rank);
  call.rope = static_cast<int>(init.qk_rope_head_dim);
  call.dtype = dtype;
  return latent_rows_refusal(call);  // the kernel that takes what the other does not
}

void flash_mla_sparse(Context& ctx, const FlashMLASparseFwd::Init& init, const View& q_nope, const View& q_pe,
                      const View& cache, const View& indices, const View& block_table, const OptView& cu_seqlens_q,
                      const View& out) {
  const OptView args[] = {q_nope, q_pe, cache, indices, block_table, cu_seqlens_q, out};
  FlashMLASparseTiles tiles(init);
  if (tiles.refuse(args).empty())
    tiles.forward(ctx, q_nope, q_pe, cache, indices, block_table, cu_seqlens_q, out);
  else
    FlashMLASparseRows(init).forward(ctx, q_nope, q_pe, cache, indices, block_table, cu_seqlens_q, out);
}

}  // namespace fk::cuda
