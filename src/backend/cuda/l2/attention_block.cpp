// The attention blocks of all families on CUDA: projection, then norms, rotary embedding and cache write in one kernel,
// attention, output projection.
#include "backend/cuda/l2/attend.h"
#include "backend/cuda/l2/rope_store.h"
#include "backend/cuda/quantised/any_product.h"
#include "ops/l1/gemma_rms_norm.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l2/gemma3_attention.h"
#include "ops/l2/llama_attention.h"
#include "ops/l2/qwen3_attention.h"
#include "ops/l2/tensor_parallel.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

// T: the operator; Norm: of each head of queries and keys, where the family has one.
template <class T, class Norm, bool kNormed>
class FusedAttentionBlock final : public T {
 public:
  explicit FusedAttentionBlock(const AttentionBlockInit& init)
      : T(init), core_(AttentionBlock::core(init)), attend_(core_) {
    if (turns())
      frequencies_ = RotaryFrequencies::of(RotaryEmbedding::inverse_frequencies(AttentionBlock::rotary(init)),
                                           init.rope_scaling.attention_factor);
  }

  std::string_view refuse(Args args) const override {
    const View& x = *args[1];
    if (x.dtype() != DType::kBF16 && x.dtype() != DType::kF16 && x.dtype() != DType::kF32)
      return "it computes in bf16, f16 and f32";
    if (!x.rows_contiguous()) return "rows must be contiguous";
    if (!turns()) return "head_dim must be even and at most 256";
    if ((this->init_.rotary_dim > 0 && this->init_.rotary_dim != this->init_.head_dim) || !this->init_.is_neox_style)
      return "it rotates whole heads, in pairs that lie half a head apart";
    if (kNormed && !this->init_.qk_norm) return "it norms queries and keys";
    if (this->init_.tp_size > 1 && this->init_.reduce_results) return "it does not add up ranks";
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    const AttentionBlockInit& init = this->init_;
    int64_t q_rows = core_.num_heads * core_.head_size, kv_rows = core_.num_kv_heads * core_.head_size;
    qkv_proj_.bind({.path = "qkv_proj",
                    .weight_format = AttentionBlock::qkv_format(init),
                    .rows = {q_rows, kv_rows, kv_rows},
                    .columns = init.hidden_size,
                    .bias = init.bias},
                   weight);
    o_proj_.bind({.path = "o_proj",
                  .weight_format = AttentionBlock::output_format(init),
                  .rows = {init.hidden_size},
                  .columns = q_rows,
                  .bias = init.bias_o_proj},
                 weight);
    if (kNormed && this->init_.qk_norm) {
      q_norm_ = weight("q_norm.weight");
      k_norm_ = weight("k_norm.weight");
    }
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    int64_t T_ = hidden_states.size(0), H = core_.num_heads, K = core_.num_kv_heads, Dh = core_.head_size;
    if (T_ == 0) return;
    const View &key_cache = this->own_state(ctx, 0), &value_cache = this->own_state(ctx, 1);
    View qkv = ctx.arena.make({{T_, (H + 2 * K) * Dh}, hidden_states.dtype()});
    qkv_proj_.run(ctx, hidden_states, qkv);
    rope_store({.qkv = qkv,
                .q_out = {},
                .q_norm = q_norm_,
                .k_norm = k_norm_,
                .eps = this->init_.rms_norm_eps,
                .weight_offset = Norm::kWeightOffset,
                .positions = positions,
                .slot_mapping = ctx.attention->slot_mapping,
                .key_cache = key_cache,
                .value_cache = value_cache,
                .num_heads = H,
                .num_kv_heads = K,
                .head_size = Dh,
                .frequencies = frequencies_},
               ctx.stream);
    View attended = ctx.arena.make({{T_, H * Dh}, hidden_states.dtype()});
    attend_.run(ctx, qkv.narrow(1, 0, H * Dh).split_last(H, Dh), key_cache, value_cache, attended.split_last(H, Dh));
    o_proj_.run(ctx, attended, out);
  }

 private:
  bool turns() const { return this->init_.head_dim % 2 == 0 && this->init_.head_dim <= kMaxRopeStoreHead; }

  Attention::Init core_;
  RotaryFrequencies frequencies_{};
  Attend attend_;
  AnyProduct qkv_proj_, o_proj_;
  OptView q_norm_, k_norm_;
};

using FusedLlamaAttention = FusedAttentionBlock<LlamaAttention, RMSNorm, false>;
using FusedQwen3Attention = FusedAttentionBlock<Qwen3Attention, RMSNorm, true>;
using FusedGemma3Attention = FusedAttentionBlock<Gemma3Attention, GemmaRMSNorm, true>;

FK_FUSED_IMPLEMENTATION(LlamaAttention, FusedLlamaAttention, "cuda.rope_store", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(Qwen3Attention, FusedQwen3Attention, "cuda.rope_store", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(Gemma3Attention, FusedGemma3Attention, "cuda.rope_store", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
