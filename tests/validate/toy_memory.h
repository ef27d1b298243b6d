// Toy operators with states, one of each kind, for tests of the contract of states.
#pragma once

#include "ops/contract.h"

namespace fk::validate {

// For each token: sum = sum / 2 + x, kept per sequence, and x itself kept per token; out is the sum plus the sequence's
// first x.
class ToyMemory : public Operator {
 public:
  static constexpr std::string_view kName = "toy_memory";
  static constexpr std::string_view kClass = "ToyMemory";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t width = 0;
    template <class Visitor>
    void visit(Visitor&& v) {
      v("width", width);
    }
  };

  // x, out [T, width].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit ToyMemory(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<ToyMemory>> cases();

 protected:
  const Init init_;
};

// Two of them, one after the other: its states are those of both.
class ToyPair : public Operator {
 public:
  static constexpr std::string_view kName = "toy_pair";
  static constexpr std::string_view kClass = "ToyPair";
  static constexpr int kLevel = 2;
  using Init = ToyMemory::Init;

  static constexpr std::array kArgs{in("x"), out("out")};

  explicit ToyPair(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given) { return ToyMemory::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& workload) { return ToyMemory::inputs(init, workload); }
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype) {
    return composed_tolerance(dtype, init.width > 0 ? 4 : 1);
  }
  static std::vector<Case<ToyPair>> cases();

 protected:
  const Init init_;
};

}  // namespace fk::validate
