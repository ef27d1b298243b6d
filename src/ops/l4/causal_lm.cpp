#include "ops/l4/causal_lm.h"

#include <cmath>

#include "ops/l3/decoder_layer.h"

namespace fk {

OutputSpecs CausalLM::outputs(const Init& init, Args given) {
  DType dtype = init.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {TensorSpec{{given[2]->size(0), rank_vocab(init.vocab_size, init.tp_size)}, dtype}};
}

Inputs CausalLM::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, init.vocab_size)},
          InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Kind::kPositions)},
          InputSpec{{{w.num_sequences()}, DType::kI64}, Generator::metadata(Kind::kLogitsIndices)}};
}

Cost CausalLM::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), S = static_cast<double>(w.num_sequences());
  auto D = static_cast<double>(init.hidden_size), V = static_cast<double>(rank_vocab(init.vocab_size, init.tp_size));
  auto size = static_cast<double>(dtype_size(init.dtype));
  // This rank's embedding rows, unless they are the head's own; the head's matrix and the logits. Tensors between
  // layers need not go through memory.
  double rows = init.tie_word_embeddings ? 0 : distinct_rows(V, T / static_cast<double>(init.tp_size));
  Cost cost{.read_bytes = size * (rows + V) * D, .written_bytes = 4 * S * V, .matrix_flops = 2 * S * V * D};
  for (int64_t i = 0; i < init.num_hidden_layers; ++i) {
    Cost layer = DecoderLayer::cost(DecoderLayerInit::of_layer(init, i), w);
    double stream = T * D * size;
    cost.read_bytes += layer.read_bytes - (w.optional_inputs ? 2 : 1) * stream;
    cost.written_bytes += layer.written_bytes - 2 * stream;
    cost.matrix_flops += layer.matrix_flops;
    cost.vector_flops += layer.vector_flops;
  }
  return cost;
}

Tolerance CausalLM::tolerance(const Init& init, DType dtype) {
  // Rounding errors of the layers add up like independent errors.
  Tolerance t = composed_tolerance(dtype, static_cast<double>(init.intermediate_size));
  double layers = 2 * std::sqrt(static_cast<double>(init.num_hidden_layers));
  return {layers * t.relative, layers * t.of_scale};
}

namespace {

struct Packed {
  std::string_view module;
  std::vector<std::string_view> parts;
};

const Packed kPacked[] = {
    {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
    {"gate_up_proj", {"gate_proj", "up_proj"}},
};

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

}  // namespace

std::vector<ParamSpec> checkpoint_params(const Node& model, const CausalLMConfig& config) {
  std::vector<ParamSpec> params;
  for (ParamSpec p : collect_params(model)) {
    if (config.tie_word_embeddings && p.name == kHead) continue;
    if (!p.part_rows.empty()) {
      for (const Packed& packed : kPacked) {
        size_t at = p.name.find(packed.module);
        if (at == std::string::npos) continue;
        for (std::string_view part : packed.parts)
          p.part_names.push_back(std::string(p.name).replace(at, packed.module.size(), part));
      }
      FK_CHECK(p.part_names.size() == p.part_rows.size(), "a stacked weight has no names for its parts");
    }
    params.push_back(std::move(p));
  }
  return params;
}

std::string loaded_name(const std::string& param, const CausalLMConfig& config) {
  return config.tie_word_embeddings && param == kHead ? std::string(kEmbedding) : param;
}

std::vector<Workload> causal_lm_workloads() {
  return {Workload::batch({{7, 0}}), Workload::batch({{5, 0}, {12, 0}, {1, 0}}),
          Workload::batch({{1, 18}, {1, 3}, {6, 0}, {4, 21}})};
}

std::vector<Workload> one_token_workloads() {
  return {Workload::batch({{1, 0}}), Workload::batch({{1, 40}}), Workload::batch({{1, 300}})};
}

}  // namespace fk
