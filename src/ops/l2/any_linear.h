// AnyLinear: the product of a layer whose matrix is stored in elements of a dtype or in a weight format. Each kind of
// format has an operator of its own; the layer's constructor arguments decide which one is called.
#pragma once

#include <memory>
#include <string>

#include "ops/l1/linear.h"
#include "ops/l1/rounded_activations.h"
#include "ops/op.h"

namespace fk {

// weight_format: empty for elements of linear.dtype, here as below.
Cost product_cost(const Linear::Init& linear, const std::string& weight_format, const Workload& w);
Tolerance product_tolerance(const Linear::Init& linear, const std::string& weight_format, DType dtype);

class AnyLinear {
 public:
  AnyLinear(Builder& builder, const Linear::Init& linear, const std::string& weight_format);

  void into(Context& ctx, const View& x, const View& out) const;
  View operator()(Context& ctx, const View& x) const;

 private:
  std::unique_ptr<Node> product_;
};

}  // namespace fk
