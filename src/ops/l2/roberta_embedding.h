// RobertaEmbedding: the norm of the sum of three embeddings: of tokens, of their types and of their positions.
#pragma once

#include "ops/contract.h"

namespace fk {

class RobertaEmbedding : public Operator {
 public:
  static constexpr std::string_view kName = "roberta_embedding";
  static constexpr std::string_view kClass = "RobertaEmbedding";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t vocab_size = 0;
    int64_t type_vocab_size = 1;
    int64_t max_position_embeddings = 512;  // rows of the table, those before the first position included
    int64_t hidden_size = 0;
    double layer_norm_eps = 1e-5;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("vocab_size", vocab_size);
      v("type_vocab_size", type_vocab_size);
      v("max_position_embeddings", max_position_embeddings);
      v("hidden_size", hidden_size);
      v("layer_norm_eps", layer_norm_eps);
      v("dtype", dtype);
    }
  };

  // input_ids, positions, token_type_ids i64 [T] -> out [T, D]. Positions are rows of the table: RoBERTa's begin behind
  // the id of the padding token.
  static constexpr std::array kArgs{in("input_ids"), in("positions"), in("token_type_ids"), out("out")};

  explicit RobertaEmbedding(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View positions, View token_type_ids, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RobertaEmbedding>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
