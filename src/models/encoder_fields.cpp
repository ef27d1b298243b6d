#include "models/encoder_fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

// What config.json calls an activation, and what the operator does.
constexpr std::pair<std::string_view, std::string_view> kActivations[] = {{"gelu", "gelu"},
                                                                          {"gelu_new", "gelu_pytorch_tanh"},
                                                                          {"gelu_pytorch_tanh", "gelu_pytorch_tanh"},
                                                                          {"quick_gelu", "quick_gelu"},
                                                                          {"relu", "relu"},
                                                                          {"silu", "silu"}};

std::string read_activation(const FamilyFields& fields, const std::string& by_default) {
  std::string name = fields.string("hidden_act").value_or(by_default);
  std::vector<std::string_view> known;
  for (const auto& [theirs, ours] : kActivations) {
    if (theirs == name) return std::string(ours);
    known.push_back(theirs);
  }
  throw Error("{}: {} with activation {} is not supported; known are {}.", fields.what(), fields.architecture,
              in_quotes(name), fmt::join(known, ", "));
}

}  // namespace

EncoderDimensions read_encoder(const FamilyFields& fields, const EncoderDimensions& defaults) {
  refuse_quantized(fields);
  // Upper bounds as in family_fields.cpp: products of dimensions stay below 2^60.
  EncoderDimensions d = defaults;
  d.hidden_size = fields.integer("hidden_size", 1, 1 << 20).value_or(d.hidden_size);
  d.intermediate_size = fields.integer("intermediate_size", 1, 1 << 22).value_or(d.intermediate_size);
  d.num_hidden_layers = fields.integer("num_hidden_layers", 1, 1 << 12).value_or(d.num_hidden_layers);
  d.num_attention_heads = fields.integer("num_attention_heads", 1, 1 << 12).value_or(d.num_attention_heads);
  d.layer_norm_eps = fields.real("layer_norm_eps", 1e-30, 1).value_or(d.layer_norm_eps);
  d.hidden_act = read_activation(fields, d.hidden_act);
  if (d.hidden_size % d.num_attention_heads != 0)
    throw Error("{}: hidden_size {} must be a multiple of num_attention_heads {}.", fields.what(), d.hidden_size,
                d.num_attention_heads);
  return d;
}

}  // namespace fk
