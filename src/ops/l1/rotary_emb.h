// RotaryEmbedding: rotates pairs of query and key elements by an angle that grows with the position. In place.
#pragma once

#include "ops/contract.h"
#include "ops/rope_scaling.h"

namespace fk {

class RotaryEmbedding : public Operator {
 public:
  static constexpr std::string_view kName = "rotary_emb";
  static constexpr std::string_view kClass = "RotaryEmbedding";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t head_size = 0;
    int64_t rotary_dim = 0;     // elements of a head that are rotated; the rest is unchanged
    int64_t rotary_offset = 0;  // the first of them
    int64_t max_position_embeddings = 8192;
    double base = 10000;
    bool is_neox_style = true;  // pairs (i, i + rotary_dim/2) of them; else (2i, 2i + 1)
    RopeScaling rope_scaling = {};
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("head_size", head_size);
      v("rotary_dim", rotary_dim);
      v("rotary_offset", rotary_offset);
      v("max_position_embeddings", max_position_embeddings);
      v("base", base);
      v("is_neox_style", is_neox_style);
      v("rope_scaling", rope_scaling);
      v("dtype", dtype);
    }
  };

  // positions i64 [T]; query [T, H * head_size], key [T, K * head_size], rows contiguous.
  static constexpr std::array kArgs{in("positions"), state("query"), opt_state("key")};

  explicit RotaryEmbedding(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View query, OptView key) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RotaryEmbedding>> cases();

  // Angle per position of each pair, scaling applied: [rotary_dim / 2]. Sines and cosines are multiplied by
  // rope_scaling.attention_factor.
  static std::vector<double> inverse_frequencies(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
