// XLMRobertaModel: XLM-RoBERTa without a head for words, of which BGE-M3 and many other embedding models are made.
#pragma once

#include "ops/l3/bert_layer.h"
#include "ops/l4/encoder_model.h"

namespace fk {

class XLMRobertaModel : public Operator {
 public:
  static constexpr std::string_view kName = "xlm_roberta_model";
  static constexpr std::string_view kClass = "XLMRobertaModel";
  static constexpr int kLevel = 4;

  struct Init {
    int64_t vocab_size = 0;
    int64_t hidden_size = 0;
    int64_t intermediate_size = 0;
    int64_t num_hidden_layers = 0;
    int64_t num_attention_heads = 0;
    int64_t max_position_embeddings = 512;
    int64_t type_vocab_size = 1;
    int64_t pad_token_id = 1;  // positions begin behind it
    double layer_norm_eps = 1e-5;
    std::string hidden_act = "gelu";
    bool add_pooling_layer = true;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("vocab_size", vocab_size);
      v("hidden_size", hidden_size);
      v("intermediate_size", intermediate_size);
      v("num_hidden_layers", num_hidden_layers);
      v("num_attention_heads", num_attention_heads);
      v("max_position_embeddings", max_position_embeddings);
      v("type_vocab_size", type_vocab_size);
      v("pad_token_id", pad_token_id);
      v("layer_norm_eps", layer_norm_eps);
      v("hidden_act", hidden_act);
      v("add_pooling_layer", add_pooling_layer);
      v("dtype", dtype);
    }
  };

  // input_ids, positions, token_type_ids i64 [T]; cu_seqlens i32 [S+1]: where the tokens of each sequence start ->
  // last_hidden_state [T, D] and, with a pooling layer, pooler_output [S, D]. Positions are rows of the table of
  // positions: of token i of a sequence without padding, pad_token_id + 1 + i.
  static constexpr std::array kArgs{in("input_ids"),  in("positions"),          in("token_type_ids"),
                                    in("cu_seqlens"), out("last_hidden_state"), opt_out("pooler_output")};

  explicit XLMRobertaModel(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View positions, View token_type_ids, View cu_seqlens,
                       View last_hidden_state, OptView pooler_output) = 0;

  static BertLayer::Init layer(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<XLMRobertaModel>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
