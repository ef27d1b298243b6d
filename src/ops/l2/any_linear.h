// AnyLinear: the product of a layer whose matrix is stored in elements of a dtype or in a weight format. Each kind is an
// operator of its own; the layer's constructor arguments decide.
#pragma once

#include <optional>
#include <string>

#include "ops/l1/gguf_linear.h"
#include "ops/op.h"

namespace fk {

// weight_format: empty for elements of linear.dtype, here as below.
inline Cost product_cost(const Linear::Init& linear, const std::string& weight_format, const Workload& w) {
  return weight_format.empty() ? Linear::cost(linear, w) : GGUFLinear::cost(GGUFLinear::of(linear, weight_format), w);
}
inline Tolerance product_tolerance(const Linear::Init& linear, const std::string& weight_format, DType dtype) {
  return weight_format.empty() ? Linear::tolerance(linear, dtype)
                               : GGUFLinear::tolerance(GGUFLinear::of(linear, weight_format), dtype);
}

class AnyLinear {
 public:
  AnyLinear(Builder& builder, const Linear::Init& linear, const std::string& weight_format) {
    if (weight_format.empty())
      linear_.emplace(builder.child<Linear>("", linear));
    else
      gguf_.emplace(builder.child<GGUFLinear>("", GGUFLinear::of(linear, weight_format)));
  }

  void into(Context& ctx, const View& x, const View& out) const {
    if (linear_)
      linear_->into(ctx, x, out);
    else
      gguf_->into(ctx, x, out);
  }
  View operator()(Context& ctx, const View& x) const { return linear_ ? (*linear_)(ctx, x) : (*gguf_)(ctx, x); }

 private:
  std::optional<Op<Linear>> linear_;
  std::optional<Op<GGUFLinear>> gguf_;
};

}  // namespace fk
