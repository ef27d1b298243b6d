// BertAttention: projections, attention of every token to all of its sequence, output projection, and the norm of the
// sum with the block's input.
#pragma once

#include "ops/l2/encoder_only_attention.h"

namespace fk {

class BertAttention : public Operator {
 public:
  static constexpr std::string_view kName = "bert_attention";
  static constexpr std::string_view kClass = "BertAttention";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t num_attention_heads = 0;
    double layer_norm_eps = 1e-5;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("num_attention_heads", num_attention_heads);
      v("layer_norm_eps", layer_norm_eps);
      v("dtype", dtype);
    }
  };

  // hidden_states [T, D], cu_seqlens i32 [S+1] -> out [T, D].
  static constexpr std::array kArgs{in("hidden_states"), in("cu_seqlens"), out("out")};

  explicit BertAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) = 0;

  static EncoderOnlyAttention::Init core(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<BertAttention>> cases();

 protected:
  const Init init_;
};

// Batches every encoder's block is tested with: one token, ragged sequences, more than a tile of keys.
std::vector<Workload> encoder_workloads();
// Of a block of projections q, k, v and o, all [D, D] with a bias, around attention that sees all of its sequence.
Cost encoder_attention_cost(const EncoderOnlyAttention::Init& core, const Workload& workload);

}  // namespace fk
