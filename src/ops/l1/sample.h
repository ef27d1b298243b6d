// Sample: draws a token per row from its filtered distribution, every row with its own parameters and its own stream.
#pragma once

#include "ops/contract.h"

namespace fk {

class Sample : public Operator {
 public:
  static constexpr std::string_view kName = "sample";
  static constexpr std::string_view kClass = "Sample";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // logits [S, V]; temperature, top_p, min_p f32 [S]; top_k i32 [S]; seeds, steps i64 [S] -> out i64 [S].
  // temperature 0 is arg-max. Else p = softmax(logits / temperature), then in this order: keep p >= min_p * max p; keep
  // the top_k largest (0: all); renormalise and keep the smallest set of the largest whose sum reaches top_p (1: all).
  // The token is where the running sum over kept tokens, in index order, passes u * total, u from stream (seed, step).
  static constexpr std::array kArgs{in("logits"), in("temperature"), in("top_k"), in("top_p"),
                                    in("min_p"),  in("seeds"),       in("steps"), out("out")};

  explicit Sample(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View logits, View temperature, View top_k, View top_p, View min_p, View seeds,
                       View steps, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Sample>> cases();

  static std::string judge(const Init& init, Args call, Args reference);

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
