// The common part of the five parallel linear layers: one matrix product on this rank's part; returns an output and a
// bias.
#pragma once

#include "ops/l2/any_linear.h"

namespace fk {

// A derived contract gives Init (with weight_format), local(init) (the product this rank computes), out_features(init)
// of it, and cases.
template <class Derived>
class ParallelLinear : public Operator {
 public:
  static constexpr int kLevel = 2;
  // x [T, in] -> out [T, out / tp]; output_bias is the bias, returned instead of added if skip_bias_add is set.
  static constexpr std::array kArgs{in("x"), out("out"), opt_out("output_bias")};

  virtual void forward(Context& ctx, View x, View out, OptView output_bias) = 0;

  template <class Init>
  static std::vector<ParamSpec> params(const Init& init) {
    if (!returns_bias(init)) return {};
    Linear::Init local = Derived::local(init);
    return {{"bias", {{local.out_features}, local.dtype}, local.output_sizes}};
  }

  template <class Init>
  static OutputSpecs outputs(const Init& init, Args given) {
    // Runs in the token loop and must not allocate, so it does not call local().
    int64_t features = Derived::out_features(init);
    std::optional<TensorSpec> bias;
    if (returns_bias(init)) bias = TensorSpec{{features}, init.dtype};
    return {TensorSpec{{given[0]->size(0), features}, given[0]->dtype()}, bias};
  }

  template <class Init>
  static Inputs inputs(const Init& init, const Workload& w) {
    return Linear::inputs(product(init), w);
  }
  template <class Init>
  static Cost cost(const Init& init, const Workload& w) {
    return product_cost(Derived::local(init), init.weight_format, w);
  }
  template <class Init>
  static Tolerance tolerance(const Init& init, DType dtype) {
    return product_tolerance(product(init), init.weight_format, dtype);
  }

  template <class Init>
  static bool returns_bias(const Init& init) {
    return init.bias && init.skip_bias_add;
  }

  // The product without the bias, which is returned instead of added.
  template <class Init>
  static Linear::Init product(const Init& init) {
    Linear::Init local = Derived::local(init);
    local.bias = local.bias && !init.skip_bias_add;
    return local;
  }
};

template <class T>
class ComposedParallelLinear final : public T {
 public:
  ComposedParallelLinear(const typename T::Init& init, Builder& builder)
      : T(init), linear_(builder, T::product(init), init.weight_format) {}

  void forward(Context& ctx, View x, View out, OptView output_bias) override {
    linear_.into(ctx, x, out);
    if (output_bias) copy_elements(this->param(0), *output_bias);
  }

 private:
  AnyLinear linear_;
};

}  // namespace fk
