// The CUDA implementations of an operator that multiplies by quantised matrices: few rows are streamed, for others the
// matrix is written out. T is derived from QuantisedLinear.
#pragma once

#include "backend/cuda/quantised/product.h"
#include "ops/formats/format_map.h"
#include "ops/l1/quantised_linear.h"

namespace fk::cuda {

template <class T>
class CudaQuantisedLinear : public T {
 public:
  using T::T;

  std::string_view refuse(Args args) const override {
    return quantised_call_refusal(*args[0], *args[1], this->init_.bias, this->init_.dtype);
  }

 protected:
  void prepare() override {
    product_.clear();
    std::vector<std::string> formats = formats_of_parts(this->init_.weight_format, this->parts_.size());
    for (size_t i = 0; i < this->parts_.size(); ++i) {
      const auto& part = this->parts_[i];
      product_.add(formats[i], {.tensors = this->tensors(part),
                                .rows = part.rows,
                                .columns = this->init_.in_features,
                                .group = part.format->code_group(0)});
    }
  }

  QuantisedProduct product_;
};

template <class T>
class StreamedQuantisedLinear final : public CudaQuantisedLinear<T> {
 public:
  using CudaQuantisedLinear<T>::CudaQuantisedLinear;

  std::string_view refuse(Args args) const override {
    std::string_view why = CudaQuantisedLinear<T>::refuse(args);
    return why.empty() ? this->product_.stream_refusal(*args[0], *args[1], StreamEpilogue::kPlain) : why;
  }
  void forward(Context& ctx, View x, View out) override {
    this->product_.stream(ctx, x, this->bias_data(), out, StreamEpilogue::kPlain);
  }
};

template <class T>
class WrittenOutLinear final : public CudaQuantisedLinear<T> {
 public:
  using CudaQuantisedLinear<T>::CudaQuantisedLinear;

  void forward(Context& ctx, View x, View out) override { this->product_.write_out(ctx, x, this->bias_data(), out); }
};

}  // namespace fk::cuda
