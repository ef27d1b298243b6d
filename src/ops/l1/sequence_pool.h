// SequencePool: one vector for each sequence from the vectors of its tokens: an embedding of the whole sequence.
#pragma once

#include "ops/contract.h"

namespace fk {

class SequencePool : public Operator {
 public:
  static constexpr std::string_view kName = "sequence_pool";
  static constexpr std::string_view kClass = "SequencePool";
  static constexpr int kLevel = 1;

  struct Init {
    std::string pooling = "cls";  // "cls": the first token's vector; "last": the last one's; "mean": of all tokens
    bool float_output = false;    // embeddings: not rounded to the dtype of x

    template <class Visitor>
    void visit(Visitor&& v) {
      v("pooling", pooling);
      v("float_output", float_output);
    }
  };

  // x [T, D], rows contiguous; cu_seqlens i32 [S+1]: where the tokens of each sequence start -> out [S, D]. A sequence
  // without tokens gives zeros.
  static constexpr std::array kArgs{in("x"), in("cu_seqlens"), out("out")};

  explicit SequencePool(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View cu_seqlens, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SequencePool>> cases();

 protected:
  // Why no implementation supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
