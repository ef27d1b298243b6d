// Indexer: chooses the keys that each query of sparse attention attends to: few small heads with one key for all of
// them, whose keys it keeps in a paged cache of its own.
#pragma once

#include "ops/contract.h"
#include "ops/rope_scaling.h"

namespace fk {

class Indexer : public Operator {
 public:
  static constexpr std::string_view kName = "indexer";
  static constexpr std::string_view kClass = "Indexer";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t q_lora_rank = 0;
    int64_t num_heads = 0;
    int64_t head_dim = 0;
    int64_t rope_dim = 0;  // elements of a head that are rotated, the first ones
    int64_t top_k = 0;
    int64_t max_position = 8192;
    double rope_theta = 10000;
    RopeScaling rope_scaling = {};
    bool is_neox_style = true;  // as in RotaryEmbedding
    std::string weight_format = {};  // of wq_b and wk; empty: elements of dtype
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("q_lora_rank", q_lora_rank);
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("rope_dim", rope_dim);
      v("top_k", top_k);
      v("max_position", max_position);
      v("rope_theta", rope_theta);
      v("rope_scaling", rope_scaling);
      v("is_neox_style", is_neox_style);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  // positions i64 [T]; hidden_states [T, D]; q_c [T, q_lora_rank]: the latents of queries -> topk_indices i32 [T, k], as
  // in TopKPerRow. The batch is the context's.
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), in("q_c"), out("topk_indices")};

  explicit Indexer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View q_c, View topk_indices) = 0;

  // The key of every token, [head_dim].
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  // Of the keys that it stores; the choice is exact.
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Indexer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
