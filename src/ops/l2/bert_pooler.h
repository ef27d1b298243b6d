// BertPooler: the first token's vector of each sequence through a linear layer and tanh.
#pragma once

#include "ops/contract.h"

namespace fk {

class BertPooler : public Operator {
 public:
  static constexpr std::string_view kName = "bert_pooler";
  static constexpr std::string_view kClass = "BertPooler";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("dtype", dtype);
    }
  };

  // hidden_states [T, D], cu_seqlens i32 [S+1] -> pooled [S, D].
  static constexpr std::array kArgs{in("hidden_states"), in("cu_seqlens"), out("pooled")};

  explicit BertPooler(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View cu_seqlens, View pooled) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<BertPooler>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
