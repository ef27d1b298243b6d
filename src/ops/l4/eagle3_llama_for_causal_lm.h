// Eagle3LlamaForCausalLM: an EAGLE-3 head, which guesses the next tokens of another model from hidden states of three
// of its layers. It has one layer, and logits for a part of the vocabulary.
//
// A token of the head is a pair: a token of the text, and hidden states of the token before it. The pair of tokens i
// and i + 1 has the position i. The first guess is drawn from states of the target; for each further one the head's own
// last hidden state is in their place.
#pragma once

#include <string>
#include <vector>

#include "ops/l3/eagle3_decoder_layer.h"
#include "ops/l4/decoder_model_init.h"

namespace fk {

struct Eagle3LlamaForCausalLMInit : DecoderModelInit {
  int64_t draft_vocab_size = 0;       // tokens the head can guess; vocab_size: all, and it has no list of them
  int64_t target_hidden_size = 0;     // of one layer of the target
  int64_t num_aux_hidden_states = 3;  // layers of the target
  // Which: as aux_hidden_state_layers of the target. Empty: the third, the middle and the third last layer's.
  std::vector<int64_t> eagle_aux_hidden_state_layer_ids = {};
  bool norm_before_residual = false;
  bool qk_norm = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::string layer_name = "layers.0";  // in checkpoints

  int64_t features() const { return num_aux_hidden_states * target_hidden_size; }

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("draft_vocab_size", draft_vocab_size);
    v("target_hidden_size", target_hidden_size);
    v("num_aux_hidden_states", num_aux_hidden_states);
    v("eagle_aux_hidden_state_layer_ids", eagle_aux_hidden_state_layer_ids);
    v("norm_before_residual", norm_before_residual);
    v("qk_norm", qk_norm);
    v("attention_bias", attention_bias);
    v("mlp_bias", mlp_bias);
    v("layer_name", layer_name);
  }
};

class Eagle3LlamaForCausalLM : public Operator {
 public:
  static constexpr std::string_view kName = "eagle3_llama_for_causal_lm";
  static constexpr std::string_view kClass = "Eagle3LlamaForCausalLM";
  static constexpr int kLevel = 4;
  using Init = Eagle3LlamaForCausalLMInit;

  // input_ids, positions i64 [T]; hidden_states [T, layers * target's D], which fc makes one of, or [T, D], of the head
  // itself; logits_indices i64 [L] -> logits f32 [L, V] of the target's vocabulary, and the hidden states they were
  // computed from, before the last norm, [L, D].
  static constexpr std::array kArgs{in("input_ids"),      in("positions"), in("hidden_states"),
                                    in("logits_indices"), out("logits"),   out("last_hidden_states")};

  explicit Eagle3LlamaForCausalLM(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View positions, View hidden_states, View logits_indices,
                       View logits, View last_hidden_states) = 0;

  static Eagle3DecoderLayerInit layer(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Eagle3LlamaForCausalLM>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
