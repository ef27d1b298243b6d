// MergeAttnStates: attention over two sets of keys, each with the logarithm of its sum of exponentials, as one.
#pragma once

#include "ops/contract.h"

namespace fk {

class MergeAttnStates : public Operator {
 public:
  static constexpr std::string_view kName = "merge_attn_states";
  static constexpr std::string_view kClass = "MergeAttnStates";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_size = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_size", head_size);
    }
  };

  // prefix_output, suffix_output, output [T, H, Dh]; prefix_lse, suffix_lse f32 [H, T]. A side without keys has the
  // lse -infinity, and its output is not read into the result, whatever it holds; without any keys the result is zero.
  static constexpr std::array kArgs{in("prefix_output"), in("prefix_lse"), in("suffix_output"), in("suffix_lse"),
                                    out("output")};

  explicit MergeAttnStates(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View prefix_output, View prefix_lse, View suffix_output, View suffix_lse,
                       View output) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<MergeAttnStates>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
