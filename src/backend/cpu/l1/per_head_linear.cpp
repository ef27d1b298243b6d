// PerHeadLinear on CPU: a matrix product for each head, heads in parallel. Products read the rows of the output, so that
// matrices stored by rows of the input are transposed once, and those in a format dequantised.
#include "ops/l1/per_head_linear.h"

#include <vector>

#include "backend/cpu/for_items.h"
#include "backend/cpu/matmul/matmul_choice.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

class PerHeadLinearMatmul final : public PerHeadLinear {
 public:
  using PerHeadLinear::PerHeadLinear;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != init_.dtype) return "x must have the dtype of the model";
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1]}) : why;
  }

  void forward(Context& ctx, View x, View out) override {
    // One thread for a product: heads are many, and each is small.
    static ThreadPool alone(1);
    const int64_t size = static_cast<int64_t>(dtype_size(x.dtype()));
    MatmulFunction product = x.size(0) < kFewRows ? fastest_dot(x.dtype()) : fastest_matmul(x.dtype());
    auto head_of = [&](const View& v, int64_t h) { return static_cast<std::byte*>(v.data()) + h * v.stride(1) * size; };
    for_items(ctx.pool, init_.num_heads, [&](int, int64_t h) {
      product({.m = x.size(0),
               .n = init_.out_features,
               .k = init_.in_features,
               .x = head_of(x, h),
               .x_stride = x.stride(0),
               .w = matrix_of(h),
               .w_stride = init_.in_features,
               .y = head_of(out, h),
               .y_stride = out.stride(0),
               .dtype = x.dtype(),
               .y_dtype = out.dtype()},
              alone);
    });
  }

 protected:
  void prepare() override {
    own_.clear();
    if (!init_.transposed && format_ == nullptr) return;
    if (init_.dtype != DType::kBF16 && init_.dtype != DType::kF16 && init_.dtype != DType::kF32) return;
    const int64_t R = rows(init_), C = columns(init_), of_head = R * C;
    own_.resize(static_cast<size_t>(init_.num_heads * of_head) * dtype_size(init_.dtype));
    with_float(init_.dtype, [&]<class T>(T) {
      std::vector<float> row(static_cast<size_t>(C));
      for (int64_t h = 0; h < init_.num_heads; ++h) {
        T* to = reinterpret_cast<T*>(own_.data()) + h * of_head;
        for (int64_t i = 0; i < R; ++i) {
          const T* from = format_ == nullptr ? row_of<T>(weight(), h * init_.rows_per_head + init_.first_row + i) : nullptr;
          if (format_ != nullptr) read_row(h, i, row);
          for (int64_t c = 0; c < C; ++c) {
            T& element = to[init_.transposed ? c * R + i : i * C + c];
            if (from != nullptr)
              element = from[c];
            else
              store(element, row[static_cast<size_t>(c)]);
          }
        }
      }
    });
  }

 private:
  static constexpr int64_t kFewRows = 3;  // as in linear.x86.cpp

  const void* matrix_of(int64_t h) const {
    auto size = static_cast<int64_t>(dtype_size(init_.dtype));
    if (!own_.empty()) return own_.data() + h * rows(init_) * columns(init_) * size;
    int64_t row = h * init_.rows_per_head + init_.first_row;
    return static_cast<const std::byte*>(weight().data()) + row * weight().stride(0) * size;
  }

  std::vector<std::byte> own_;  // [H, out_features, in_features], where the parameter is not used as it is
};

FK_IMPLEMENTATION(PerHeadLinear, PerHeadLinearMatmul, "cpu.matmul", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
