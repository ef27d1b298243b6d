// TopKPerRow: the keys that each query wants most, of those it sees.
#pragma once

#include "ops/contract.h"

namespace fk {

class TopKPerRow : public Operator {
 public:
  static constexpr std::string_view kName = "top_k_per_row";
  static constexpr std::string_view kClass = "TopKPerRow";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t top_k = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("top_k", top_k);
    }
  };

  // logits f32 [T, n, m], a row of n * m keys for each query; positions i64 [T]: query t sees keys 0 .. positions[t] ->
  // indices i32 [T, k]: the keys with the largest logits in ascending order, the first of those with equal ones; -1
  // behind them where the query sees fewer. NaN is larger than everything.
  static constexpr std::array kArgs{in("logits"), in("positions"), out("indices")};

  explicit TopKPerRow(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View logits, View positions, View indices) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init&, DType) { return {}; }
  static std::vector<Case<TopKPerRow>> cases();

 protected:
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
