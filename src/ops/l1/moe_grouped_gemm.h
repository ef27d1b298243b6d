// MoeGroupedGemm: every (token, expert) pair's row times the matrix of its expert.
#pragma once

#include "ops/contract.h"

namespace fk {

class MoeGroupedGemm : public Operator {
 public:
  static constexpr std::string_view kName = "moe_grouped_gemm";
  static constexpr std::string_view kClass = "MoeGroupedGemm";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_experts = 0;
    int64_t top_k = 1;  // experts of a token
    int64_t in_features = 0;
    int64_t out_features = 0;
    std::vector<int64_t> output_sizes = {};  // rows of each matrix stacked in an expert's; empty: it is one
    bool input_per_token = false;            // x has a row for each token, else one for each pair
    bool bias = false;                       // of each expert, [E, N]
    std::string weight_format = {};          // of the matrices (ops/formats); empty: elements of dtype
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_experts", num_experts);
      v("top_k", top_k);
      v("in_features", in_features);
      v("out_features", out_features);
      v("output_sizes", output_sizes);
      v("input_per_token", input_per_token);
      v("bias", bias);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  // x [T, K] or [T * k, K], rows contiguous; sorted_token_ids i32 [T * k], a permutation of the pairs; expert_offsets
  // i32 [E + 1], rising from 0 to T * k -> out [T * k, N]. The pairs p = sorted_token_ids[offsets[e] .. offsets[e+1]-1]
  // have out[p] = x[p / k] W[e]^T, or x[p] W[e]^T, plus the bias of e. The weight is [E, N, K], with a format [E, N,
  // bytes of K elements].
  static constexpr std::array kArgs{in("x"), in("sorted_token_ids"), in("expert_offsets"), out("out")};

  explicit MoeGroupedGemm(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<MoeGroupedGemm>> cases();

 protected:
  const View& weight() const { return param(0); }
  OptView bias() const { return init_.bias ? OptView(param(1)) : std::nullopt; }
  int64_t input_row(int64_t pair) const { return init_.input_per_token ? pair / init_.top_k : pair; }
  const Init init_;
};

}  // namespace fk
