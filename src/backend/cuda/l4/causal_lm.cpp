// The language models on CUDA when one sequence decodes: the whole token in one kernel
// (decode_megakernel/decode_token.h).
#include "ops/l4/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/cuda/decode_megakernel/decode_token.h"
#include "backend/cuda/decode_megakernel/expert_plan.h"
#include "backend/cuda/decode_megakernel/pack_mxfp4.h"
#include "backend/cuda/decode_megakernel/packed_plan.h"
#include "backend/cuda/l4/token_matrices.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "ops/l1/gemma_rms_norm.h"
#include "ops/l1/rms_norm.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l1/swigluoai_and_mul.h"
#include "ops/l4/gemma3_for_causal_lm.h"
#include "ops/l4/gpt_oss_for_causal_lm.h"
#include "ops/l4/llama_for_causal_lm.h"
#include "ops/l4/mistral_for_causal_lm.h"
#include "ops/l4/mixtral_for_causal_lm.h"
#include "ops/l4/qwen3_for_causal_lm.h"
#include "ops/l4/qwen3_moe_for_causal_lm.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

// The differences between families, for this kernel.
struct LlamaFamily {
  using Norm = RMSNorm;
  static constexpr bool kNormsHeads = false;   // queries and keys
  static constexpr bool kNormsBlocks = false;  // the outputs of blocks
  static constexpr bool kGelu = false;
  static constexpr std::string_view kExperts = {};  // name of a layer's experts
  static constexpr std::string_view kRouter = "gate";
  static constexpr bool kPacked = false;  // experts in MXFP4, with biases and attention sinks
};
struct Qwen3Family : LlamaFamily {
  static constexpr bool kNormsHeads = true;
};
struct Gemma3Family : LlamaFamily {
  using Norm = GemmaRMSNorm;
  static constexpr bool kNormsHeads = true;
  static constexpr bool kNormsBlocks = true;
  static constexpr bool kGelu = true;
};
struct MixtralFamily : LlamaFamily {
  static constexpr std::string_view kExperts = "block_sparse_moe";
};
struct Qwen3MoeFamily : Qwen3Family {
  static constexpr std::string_view kExperts = "mlp";
};

struct GptOssFamily : LlamaFamily {
  static constexpr std::string_view kExperts = "mlp";
  static constexpr std::string_view kRouter = "router";
  static constexpr bool kPacked = true;
};

// T: the operator.
template <class T, class Family>
class OneKernelCausalLM final : public T {
  static constexpr bool kHasExperts = !Family::kExperts.empty();

 public:
  using Init = typename T::Init;

  explicit OneKernelCausalLM(const Init& c) : T(c), call_(sizes(c)), unfit_(judge_model(c)) {}

  std::string_view refuse(Args args) const override {
    if (!unfit_.empty()) return unfit_;
    if (!aligned_) return "weights must start on 16 bytes";
    if (Family::kPacked && packed_.size() == 0) return "there is too little memory for a packed copy of its experts";
    if (args[0]->size(0) != 1 || args[2]->size(0) != 1) return "it computes one token of one sequence";
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!unfit_.empty()) return;
    TokenModel model{};
    aligned_ = true;
    auto address = [&](const std::string& name) {
      const void* at = weight(name).data();
      aligned_ = aligned_ && reinterpret_cast<uintptr_t>(at) % 16 == 0;
      return at;
    };
    for (int64_t i = 0; i < this->init_.num_hidden_layers; ++i) {
      const std::string path = fmt::format("model.layers.{}.", i);
      model.layers[i] = layer(i, [&](std::string_view name) { return address(path + std::string(name)); });
    }
    if constexpr (kHasExperts)
      for (int64_t i = 0; i < this->init_.num_hidden_layers; ++i)
        model.expert_layers[i] =
            expert_layer(i, [&](std::string_view name) { return address(fmt::format("model.layers.{}.{}", i, name)); });
    for (size_t r = 0; r < ropes_.size(); ++r) std::copy(ropes_[r].begin(), ropes_[r].end(), model.frequencies[r]);
    call_.embedding = address("model.embed_tokens.weight");
    call_.final_norm = address("model.norm.weight");
    call_.head = address("lm_head.weight");

    Device device = weight("lm_head.weight").device();
    if constexpr (Family::kPacked)
      if (aligned_) pack(model, device);
    model_ = Buffer(sizeof model, device);
    device_runtime(device).upload(model_.data(), &model, sizeof model);
    if (is_coded()) matrices_.bind(products(this->init_), weight, model);
    TokenScratch needs = decode_token_scratch(call_, this->init_.head_dim);
    partial_values_ = Buffer(needs.partial_values * sizeof(float), device);
    partial_states_ = Buffer(needs.partial_states * sizeof(float), device);
    arrivals_ = Buffer(needs.arrivals * sizeof(unsigned), device);
    if constexpr (kHasExperts) {
      logit_sums_ = Buffer(needs.logit_sums * sizeof(unsigned long long), device);
      square_sums_ = Buffer(needs.square_sums * sizeof(float), device);
    }
  }

  void forward(Context& ctx, View input_ids, View positions, View, View logits) override {
    // One token: of a decoding sequence, or of a prompt of one token.
    const SequenceGroup& sequence =
        ctx.attention->decode.num_tokens == 1 ? ctx.attention->decode : ctx.attention->prefill;
    if (is_coded()) matrices_.pack_once(call_.codes, model_, ctx.stream);
    TokenCall call = call_;
    call.model = reinterpret_cast<const TokenModel*>(model_.data());
    for (int64_t i = 0; i < this->init_.num_hidden_layers; ++i) {
      // The states of the tree are those of its layers: keys, values, one layer after the other.
      auto first = 2 * static_cast<size_t>(i);
      const View &key = this->own_state(ctx, first), &value = this->own_state(ctx, first + 1);
      FK_CHECK(key.contiguous() && value.contiguous() && key.dtype() == this->init_.dtype);
      if (key.size(1) != kTokenPage)
        throw Error("A whole token in one kernel wants pages of {} tokens, and these hold {}; use that page size.",
                    kTokenPage, key.size(1));
      call.caches[i] = {key.data(), value.data()};
      call.cache_slots = key.size(0) * key.size(1);
    }
    call.id = input_ids.ptr<int64_t>();
    call.position = positions.ptr<int64_t>();
    call.slot = ctx.attention->slot_mapping.ptr<int64_t>();
    call.length = sequence.seq_lens.ptr<int32_t>();
    call.block_table = sequence.block_table.ptr<int32_t>();
    auto vector = [&](int64_t elements) { return ctx.arena.make({{elements}, this->init_.dtype}).data(); };
    call.qkv = vector(call.shapes[kQkv].features);
    call.attended = vector(call.shapes[kOut].length);
    call.attention_out = vector(call.hidden);
    call.gated = vector(call.shapes[kDown].length);
    call.feed_forward_out = vector(call.hidden);
    for (void*& residual : call.residuals) residual = vector(call.hidden);
    call.logits = logits.ptr<float>();
    call.partial_values = reinterpret_cast<float*>(partial_values_.data());
    call.partial_states = reinterpret_cast<float*>(partial_states_.data());
    call.arrivals = reinterpret_cast<unsigned*>(arrivals_.data());
    call.experts.logit_sums = reinterpret_cast<unsigned long long*>(logit_sums_.data());
    call.experts.square_sums = reinterpret_cast<float*>(square_sums_.data());
    decode_token(call, this->init_.head_dim, ctx.stream);
  }

 private:
  // Packs the experts of all layers, and lets the model point to the result.
  void pack(TokenModel& model, Device device) {
    DeviceRuntime& runtime = device_runtime(device);
    const int64_t experts = call_.experts.count, hidden = call_.hidden, size = call_.experts.size;
    const int64_t gate_up = 2 * experts * size, down = experts * hidden;  // rows
    const auto gate_up_bytes = static_cast<size_t>(gate_up * packed_row_bytes(call_.hidden)),
               down_bytes = static_cast<size_t>(down * packed_row_bytes(call_.experts.size)),
               all = static_cast<size_t>(call_.layers) * (gate_up_bytes + down_bytes);
    packed_ = Buffer();
    if (runtime.free_bytes() < all + all / 8) return;  // caches come later
    packed_ = Buffer(all, device);
    std::byte* at = packed_.data();
    for (int i = 0; i < call_.layers; ++i) {
      const void*(&matrices)[kProductsOfLayer] = model.layers[i].matrices;
      pack_mxfp4(matrices[kGateUp], gate_up, call_.hidden, at, runtime.stream());
      matrices[kGateUp] = at;
      at += gate_up_bytes;
      pack_mxfp4(matrices[kDown], down, call_.experts.size, at, runtime.stream());
      matrices[kDown] = at;
      at += down_bytes;
    }
    runtime.synchronize();
  }

  template <class Weight>
  TokenExpertLayer expert_layer(int64_t i, const Weight& weight) const {
    TokenExpertLayer l{};
    auto of_experts = [&](std::string_view name) { return weight(fmt::format("{}.{}", Family::kExperts, name)); };
    l.router = of_experts(fmt::format("{}.weight", Family::kRouter));
    if constexpr (Family::kPacked) {
      l.router_bias = of_experts(fmt::format("{}.bias", Family::kRouter));
      l.gate_up_bias = of_experts("experts.w13.bias");
      l.down_bias = of_experts("experts.w2.bias");
      const AttentionBlockInit attention = T::layer(this->init_, i).attention;
      if (attention.bias) l.qkv_bias = weight("self_attn.qkv_proj.bias");
      if (attention.bias_o_proj) l.out_bias = weight("self_attn.o_proj.bias");
      l.sinks = static_cast<const float*>(weight("self_attn.attn.decode.sinks"));
    }
    return l;
  }

  static Attention::Init core(const Init& c, int64_t layer) {
    return AttentionBlock::core(T::layer(c, layer).attention);
  }

  static TokenCall sizes(const Init& c) {
    TokenCall call{};
    auto product = [](int64_t features, int64_t length, bool gated = false) {
      return DividedShape{{static_cast<int>(features), static_cast<int>(length), gated}, {}};
    };
    call.shapes[kQkv] = product((c.num_attention_heads + 2 * c.num_key_value_heads) * c.head_dim, c.hidden_size);
    call.shapes[kOut] = product(c.hidden_size, c.num_attention_heads * c.head_dim);
    call.shapes[kGateUp] = product(c.intermediate_size, c.hidden_size, true);
    call.shapes[kDown] = product(c.hidden_size, c.intermediate_size);
    call.shapes[kHead] = product(c.vocab_size, c.hidden_size);
    call.layers = static_cast<int>(c.num_hidden_layers);
    call.vocabulary = static_cast<int>(c.vocab_size);
    call.hidden = static_cast<int>(c.hidden_size);
    call.heads = static_cast<int>(c.num_attention_heads);
    call.kv_heads = static_cast<int>(c.num_key_value_heads);
    call.pairs = static_cast<int>(c.head_dim / 2);
    call.embedding_scale = static_cast<float>(T::embedding_scale(c));
    call.eps = static_cast<float>(c.rms_norm_eps);
    call.norm_offset = static_cast<float>(Family::Norm::kWeightOffset);
    call.score_scale = static_cast<float>(core(c, 0).scale);
    call.gelu = Family::kGelu;
    call.rotary_factor =
        static_cast<float>(AttentionBlock::rotary(T::layer(c, 0).attention).rope_scaling.attention_factor);
    if constexpr (kHasExperts) {
      const SparseMoeBlockInit moe = T::layer(c, 0).moe;
      call.experts = {.count = static_cast<int>(moe.num_experts),
                      .chosen = static_cast<int>(moe.top_k),
                      .size = static_cast<int>(moe.intermediate_size),
                      .renormalize = moe.renormalize};
      if constexpr (Family::kPacked) {
        call.experts.packed = true;
        call.experts.swiglu_alpha = static_cast<float>(SwigluOAIAndMul::Init{}.alpha);
        call.experts.swiglu_limit = static_cast<float>(c.swiglu_limit);
      }
      call.shapes[kGateUp] = product(moe.top_k * moe.intermediate_size, c.hidden_size, true);
      call.shapes[kDown] = product(c.hidden_size, moe.top_k * padded_expert(call.experts.size));
    }
    return call;
  }

  // Why such a model cannot run in one kernel; empty when it can. Also collects its rotary embeddings.
  std::string_view judge_model(const Init& c) {
    if (c.dtype != DType::kBF16) return "it computes in bf16";
    if (std::string_view why = judge_formats(c); !why.empty()) return why;
    if (c.tp_size > 1) return "it supports tp_size 1 only";
    if (!c.aux_hidden_state_layers.empty()) return "it keeps no hidden states of layers";
    DecoderLayerInit first = T::layer(c, 0);
    if ((first.attention.rotary_dim > 0 && first.attention.rotary_dim != c.head_dim) || !first.attention.is_neox_style)
      return "it rotates whole heads, in pairs that lie half a head apart";
    if (Family::kNormsHeads && !first.attention.qk_norm) return "it norms queries and keys";
    if constexpr (Family::kPacked) {
      if (c.experts_format != "mxfp4") return "the experts must be in MXFP4";
    } else if (first.attention.bias || first.attention.bias_o_proj || first.mlp.bias) {
      return "it adds no biases";
    }
    if constexpr (kHasExperts)
      for (int64_t i = 0; i < c.num_hidden_layers; ++i)
        if (!T::layer(c, i).has_experts()) return "all layers must have experts";
    std::string_view why = decode_token_refusal(call_, c.head_dim);
    if (!why.empty()) return why;
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      const RotaryEmbedding::Init rotary = AttentionBlock::rotary(T::layer(c, i).attention);
      if (static_cast<float>(rotary.rope_scaling.attention_factor) != call_.rotary_factor)
        return "its layers scale sines and cosines in different ways";
      std::vector<double> rope = RotaryEmbedding::inverse_frequencies(rotary);
      auto same = std::find(ropes_.begin(), ropes_.end(), rope);
      rope_of_layer_.push_back(static_cast<int>(same - ropes_.begin()));
      if (same == ropes_.end()) ropes_.push_back(std::move(rope));
      if (ropes_.size() > kMostRopes) return "its layers turn in more than two ways";
    }
    call_.ropes = static_cast<int>(ropes_.size());
    return {};
  }

  bool is_coded() const { return call_.codes != TokenCodes::kNone; }

  // The same for the formats of its weights. Also finds the form they are packed in.
  std::string_view judge_formats(const Init& c) {
    if (c.weight_format.empty()) return {};
    if (!head_format(c).empty() || !format_of_module(c.weight_format, "embed_tokens").empty())
      return "embedding and head must not be quantised";
    if constexpr (!kHasExperts) call_.codes = TokenMatrices::codes_of(products(c));
    return is_coded() ? "" : "it reads bf16, FP8 with a scale for each row, or 4-bit integers in groups of 128";
  }

  static LayerProducts products(const Init& c) {
    LayerProducts all;
    if constexpr (!kHasExperts) {
      const int64_t q_rows = c.num_attention_heads * c.head_dim, kv_rows = c.num_key_value_heads * c.head_dim;
      for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
        const DecoderLayerInit l = with_formats(T::layer(c, i), c, i);
        auto add = [&](std::string_view name, std::string format, std::vector<int64_t> rows, int64_t columns) {
          all.push_back({.path = fmt::format("model.layers.{}.{}", i, name),
                         .weight_format = std::move(format),
                         .rows = std::move(rows),
                         .columns = columns});
        };
        add("self_attn.qkv_proj", AttentionBlock::qkv_format(l.attention), {q_rows, kv_rows, kv_rows}, c.hidden_size);
        add("self_attn.o_proj", AttentionBlock::output_format(l.attention), {c.hidden_size}, q_rows);
        add("mlp.gate_up_proj", MlpBlock::gate_up_format(l.mlp), {c.intermediate_size, c.intermediate_size},
            c.hidden_size);
        add("mlp.down_proj", format_of_module(l.mlp.weight_format, "down_proj"), {c.hidden_size}, c.intermediate_size);
      }
    }
    return all;
  }

  template <class Weight>
  TokenLayer layer(int64_t i, const Weight& weight) const {
    TokenLayer l{};
    if (!is_coded()) {
      l.matrices[kQkv] = weight("self_attn.qkv_proj.weight");
      l.matrices[kOut] = weight("self_attn.o_proj.weight");
    }
    if constexpr (kHasExperts) {
      l.matrices[kGateUp] = weight(std::string(Family::kExperts) + ".experts.w13.weight");
      l.matrices[kDown] = weight(std::string(Family::kExperts) + ".experts.w2.weight");
    } else if (!is_coded()) {
      l.matrices[kGateUp] = weight("mlp.gate_up_proj.weight");
      l.matrices[kDown] = weight("mlp.down_proj.weight");
    }
    l.input_norm = weight("input_layernorm.weight");
    if constexpr (Family::kNormsBlocks) {
      l.after_attention_norm = weight("post_attention_layernorm.weight");
      l.feed_forward_norm = weight("pre_feedforward_layernorm.weight");
      l.after_feed_forward_norm = weight("post_feedforward_layernorm.weight");
    } else {
      l.feed_forward_norm = weight("post_attention_layernorm.weight");
    }
    if constexpr (Family::kNormsHeads) {
      l.q_norm = weight("self_attn.q_norm.weight");
      l.k_norm = weight("self_attn.k_norm.weight");
    }
    l.window = static_cast<int>(core(this->init_, i).sliding_window);
    l.rope = rope_of_layer_[static_cast<size_t>(i)];
    return l;
  }

  TokenCall call_;  // sizes and weights; the other addresses come with each call
  std::vector<std::vector<double>> ropes_;
  std::vector<int> rope_of_layer_;
  std::string_view unfit_;
  bool aligned_ = false;    // all weights of the model
  TokenMatrices matrices_;  // where they are quantised
  Buffer packed_;           // matrices of experts (decode_megakernel/packed_plan.h)
  Buffer model_, partial_values_, partial_states_, arrivals_, logit_sums_, square_sums_;
};

using OneKernelLlama = OneKernelCausalLM<LlamaForCausalLM, LlamaFamily>;
using OneKernelMistral = OneKernelCausalLM<MistralForCausalLM, LlamaFamily>;
using OneKernelQwen3 = OneKernelCausalLM<Qwen3ForCausalLM, Qwen3Family>;
using OneKernelGemma3 = OneKernelCausalLM<Gemma3ForCausalLM, Gemma3Family>;
using OneKernelMixtral = OneKernelCausalLM<MixtralForCausalLM, MixtralFamily>;
using OneKernelGptOss = OneKernelCausalLM<GptOssForCausalLM, GptOssFamily>;
using OneKernelQwen3Moe = OneKernelCausalLM<Qwen3MoeForCausalLM, Qwen3MoeFamily>;

FK_FUSED_IMPLEMENTATION(LlamaForCausalLM, OneKernelLlama, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(MistralForCausalLM, OneKernelMistral, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(Qwen3ForCausalLM, OneKernelQwen3, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(Gemma3ForCausalLM, OneKernelGemma3, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(MixtralForCausalLM, OneKernelMixtral, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(GptOssForCausalLM, OneKernelGptOss, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);
FK_FUSED_IMPLEMENTATION(Qwen3MoeForCausalLM, OneKernelQwen3Moe, "cuda.one_kernel", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
