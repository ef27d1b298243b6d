#include "ops/l3/llada_llama_block.h"

#include "ops/l1/rms_norm.h"
#include "ops/l2/llama_mlp.h"
#include "ops/register.h"

namespace fk {

Inputs LLaDALlamaBlock::inputs(const Init& init, const Workload& w) {
  Inputs inputs = LLaDAAttention::inputs(init.attention, w);
  inputs.push_back(w.optional_inputs ? inputs[1] : std::nullopt);
  return inputs;
}

Cost LLaDALlamaBlock::cost(const Init& init, const Workload& w) {
  return DecoderLayer::cost_of_blocks(init.attention.hidden_size, LLaDAAttention::cost(init.attention, w),
                                      MlpBlock::cost(init.mlp, w), w);
}

std::vector<Case<LLaDALlamaBlock>> LLaDALlamaBlock::cases() {
  Init c{.attention = {.hidden_size = 48, .num_heads = 4, .num_kv_heads = 2, .head_dim = 12, .max_position = 512},
         .mlp = {.hidden_size = 48, .intermediate_size = 100}};
  return {{"first layer", c, Workload::batch({{9, 0}, {20, 0}})},
          {"later layer", c, Workload::batch({{1, 0}, {33, 0}, {4, 0}}, true)}};
}

namespace {

class ComposedLLaDALlamaBlock final : public LLaDALlamaBlock {
 public:
  ComposedLLaDALlamaBlock(const Init& init, Builder& builder)
      : LLaDALlamaBlock(init),
        attn_norm_(builder.child<RMSNorm>("attn_norm", DecoderLayer::norm<RMSNorm>(init))),
        attention_(builder.child<LLaDAAttention>("", init.attention)),
        ff_norm_(builder.child<RMSNorm>("ff_norm", DecoderLayer::norm<RMSNorm>(init))),
        mlp_(builder.child<LlamaMLP>("", init.mlp)) {}

  void forward(Context& ctx, View positions, View hidden_states, View cu_seqlens, OptView residual, View out,
               View residual_out) override {
    auto [normed, sum] = attn_norm_(ctx, hidden_states, residual);
    View attended = attention_(ctx, positions, normed, cu_seqlens);
    View ready = ctx.arena.make(attended.spec());
    ff_norm_.into(ctx, attended, sum ? *sum : hidden_states, ready, residual_out);
    mlp_.into(ctx, ready, out);
  }

 private:
  Op<RMSNorm> attn_norm_;
  Op<LLaDAAttention> attention_;
  Op<RMSNorm> ff_norm_;
  Op<LlamaMLP> mlp_;
};

FK_COMPOSITION(LLaDALlamaBlock, ComposedLLaDALlamaBlock);

}  // namespace
}  // namespace fk
