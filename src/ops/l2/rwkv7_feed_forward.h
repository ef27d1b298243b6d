// RWKV7FeedForward: the channel mixing of RWKV 7: shifted tokens, a product, the square of ReLU, a product.
#pragma once

#include "ops/contract.h"

namespace fk {

class RWKV7FeedForward : public Operator {
 public:
  static constexpr std::string_view kName = "rwkv7_feed_forward";
  static constexpr std::string_view kClass = "RWKV7FeedForward";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t intermediate_size = 0;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("intermediate_size", intermediate_size);
      v("dtype", dtype);
    }
  };

  // x [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit RWKV7FeedForward(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  // The last token.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RWKV7FeedForward>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
