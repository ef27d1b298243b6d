// The float64 oracle and the definition of RMSNorm and of the norms that differ from it in kWeightOffset.
#pragma once

#include <cmath>
#include <vector>

#include "ops/algebra/definition.h"
#include "ops/l1/rms_norm.h"

namespace fk {

template <class Norm>
class NormOracle final : public Norm {
 public:
  using Norm::Norm;

  void forward(Context&, View x, OptView residual, View out, OptView residual_out) override {
    for (int64_t t = 0; t < x.size(0); ++t) {
      if (x.rank() == 2) {
        normalise(x.select(0, t), select(residual, t), out.select(0, t), select(residual_out, t));
      } else {
        for (int64_t h = 0; h < x.size(1); ++h)
          normalise(x.select(0, t).select(0, h), {}, out.select(0, t).select(0, h), {});
      }
    }
  }

 private:
  static OptView select(const OptView& v, int64_t t) { return v ? OptView(v->select(0, t)) : std::nullopt; }

  void normalise(const View& x, const OptView& residual, const View& out, const OptView& residual_out) const {
    int64_t D = this->init_.hidden_size;
    std::vector<double> sum(static_cast<size_t>(D));
    double squares = 0;
    for (int64_t i = 0; i < D; ++i) {
      sum[i] = get(x, i) + (residual ? get(*residual, i) : 0);
      squares += sum[i] * sum[i];
    }
    double scale = 1 / std::sqrt(squares / static_cast<double>(D) + this->init_.eps);
    for (int64_t i = 0; i < D; ++i) {
      set(out, sum[i] * scale * (get(this->weight(), i) + Norm::kWeightOffset), i);
      if (residual_out) set(*residual_out, sum[i], i);
    }
  }
};

template <class Norm>
void define_norm(const typename Norm::Init& init, Definition& d) {
  Expr x = d.arg("x"), weight = d.arg("weight");
  if (d.has("residual")) {
    x = x + d.arg("residual");
    d.result("residual_out", x);
  }
  if (Norm::kWeightOffset != 0) weight = weight + Norm::kWeightOffset;
  d.result("out", x / sqrt(mean(x * x, -1) + init.eps) * weight);
}

}  // namespace fk
