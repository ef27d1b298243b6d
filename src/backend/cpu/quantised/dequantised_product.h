// DequantisedProduct: a product with a matrix in any ScaledFormat, on any CPU. Some rows of weights at a time are
// dequantised to the dtype of x, in memory that stays in the cache, and multiplied by the fastest product of elements.
#pragma once

#include <algorithm>

#include "backend/cpu/matmul/matmul_choice.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/l1/quantised_linear.h"

namespace fk {

// What CPU kernels of all quantised products take.
template <class T>
class QuantisedProductCall : public T {
 public:
  using T::T;

  std::string_view refuse(Args args) const override {
    const View &x = *args[0], &y = *args[1];
    bool known = x.dtype() == DType::kBF16 || x.dtype() == DType::kF16 || x.dtype() == DType::kF32;
    if (!known) return "x is not bf16, f16 or f32";
    if (y.dtype() != DType::kF32 && y.dtype() != x.dtype()) return "the output is neither f32 nor of the dtype of x";
    if (this->init_.bias && this->init_.dtype != x.dtype()) return "the bias and x have different dtypes";
    if (!x.rows_contiguous() || !y.rows_contiguous()) return "rows of x or of the output are not contiguous";
    return {};
  }

 protected:
  // out[t][n .. n + count) = sums + bias
  void store_sums(const View& out, int64_t t, int64_t n, const float* sums, int64_t count) const {
    with_float(out.dtype(), [&]<class Out>(Out) {
      Out* y = row_of<Out>(out, t) + n;
      if (!this->init_.bias) {
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<Out>(sums[i]);
        return;
      }
      with_float(this->init_.dtype, [&]<class Bias>(Bias) {
        const Bias* b = this->bias().template ptr<Bias>() + n;
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<Out>(sums[i] + static_cast<float>(b[i]));
      });
    });
  }
};

template <class T>
class DequantisedProduct : public QuantisedProductCall<T> {
 public:
  using QuantisedProductCall<T>::QuantisedProductCall;

  void forward(Context& ctx, View x, View out) override {
    const int64_t k = this->init_.in_features;
    const auto size = static_cast<int64_t>(dtype_size(x.dtype()));
    const int64_t chunk = std::max<int64_t>(kChunkBytes / std::max<int64_t>(k * size, 1), 16);
    if (x.size(0) == 0) return;
    for (const typename T::Part& part : this->parts_) {
      View w = ctx.arena.make({{std::min(chunk, part.rows), k}, x.dtype()});
      for (int64_t row = 0; row < part.rows; row += chunk) {
        int64_t count = std::min(chunk, part.rows - row), first = part.row + row;
        ctx.pool.parallel_for(count, 4, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) this->unpack(part, row + r, w.select(0, r));
        });
        const auto* bias = static_cast<const std::byte*>(this->bias_data());
        fastest_matmul(x.dtype())(
            {.m = x.size(0),
             .n = count,
             .k = k,
             .x = x.data(),
             .x_stride = x.stride(0),
             .w = w.data(),
             .w_stride = k,
             .bias = bias == nullptr ? nullptr : bias + first * size,
             .y = static_cast<std::byte*>(out.data()) + first * static_cast<int64_t>(dtype_size(out.dtype())),
             .y_stride = out.stride(0),
             .dtype = x.dtype(),
             .y_dtype = out.dtype()},
            ctx.pool);
      }
    }
  }

 protected:
  // One row of weights as elements of to's dtype.
  virtual void unpack(const typename T::Part& part, int64_t row, const View& to) const {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(to.size(0)));
    part.format->dequantise(this->tensors(part), row, values);
    with_float(to.dtype(), [&]<class E>(E) {
      E* out = to.ptr<E>();
      for (size_t i = 0; i < values.size(); ++i) store(out[i], values[i]);
    });
  }

 private:
  static constexpr int64_t kChunkBytes = 1 << 20;
};

}  // namespace fk
