// DequantisedProduct: a product with a matrix in any ScaledFormat, on any CPU. Each thread
// dequantises some rows of weights at a time to the dtype of x, in memory that stays in its cache, and multiplies by
// the fastest product of elements.
#pragma once

#include <algorithm>

#include "backend/cpu/for_items.h"
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
    if (x.size(0) == 0) return;
    const int64_t k = this->init_.in_features, size = static_cast<int64_t>(dtype_size(x.dtype()));
    const int64_t rows = std::max<int64_t>(kScratchBytes / std::max<int64_t>(k * size, 1), 16);
    auto items_of = [&](const typename T::Part& part) { return (part.rows + rows - 1) / rows; };
    int64_t items = 0;
    for (const typename T::Part& part : this->parts_) items += items_of(part);
    View scratch = ctx.arena.make({{ctx.pool.threads(), rows, k}, x.dtype()});
    for_items(ctx.pool, items, [&](int thread, int64_t item) {
      size_t p = 0;
      for (; item >= items_of(this->parts_[p]); ++p) item -= items_of(this->parts_[p]);
      const typename T::Part& part = this->parts_[p];
      int64_t row = item * rows, count = std::min(rows, part.rows - row);
      View w = scratch.select(0, thread);
      for (int64_t r = 0; r < count; ++r) this->unpack(part, row + r, w.select(0, r));
      multiply(x, w, count, part.row + row, out);
    });
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
  static constexpr int64_t kScratchBytes = 1 << 18;  // of a thread, in its L2 cache

  // out[:, first .. first + count) by this thread alone
  void multiply(const View& x, const View& w, int64_t count, int64_t first, const View& out) const {
    thread_local ThreadPool alone(1);
    const auto* bias = static_cast<const std::byte*>(this->bias_data());
    const auto size = static_cast<int64_t>(dtype_size(x.dtype())),
               out_size = static_cast<int64_t>(dtype_size(out.dtype()));
    fastest_matmul(x.dtype())({.m = x.size(0),
                               .n = count,
                               .k = this->init_.in_features,
                               .x = x.data(),
                               .x_stride = x.stride(0),
                               .w = w.data(),
                               .w_stride = this->init_.in_features,
                               .bias = bias == nullptr ? nullptr : bias + first * size,
                               .y = static_cast<std::byte*>(out.data()) + first * out_size,
                               .y_stride = out.stride(0),
                               .dtype = x.dtype(),
                               .y_dtype = out.dtype()},
                              alone);
  }
};

}  // namespace fk
