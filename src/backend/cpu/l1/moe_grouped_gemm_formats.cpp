// `moe_grouped_gemm` on any CPU with experts in a weight format. Rows of a matrix are dequantised where they are used:
// for few rows of x one by one, for many the matrix of an expert as a whole, which a matrix product then reads.
#include "backend/cpu/for_items.h"
#include "backend/cpu/matmul/matmul_choice.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/batch_invariant.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/moe_grouped_gemm.h"
#include "ops/register.h"

namespace fk {
namespace {

// From so many rows on, a product of tiles is worth writing the matrix down.
constexpr int64_t kManyRows = 12;

FK_SIMD_CLONES float dot_of_rows(const float* a, const float* b, int64_t n) {
  return lane_sum(n, [&](int64_t i) { return a[i] * b[i]; });
}

// values[i] = codes[i] * scale - minimum
FK_SIMD_CLONES void scale_codes(const int8_t* codes, int64_t n, float scale, float minimum, float* values) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(codes[i]) * scale - minimum;
}

// One block in f32.
void widen_block(const WeightFormat& format, const std::byte* block, float* values) {
  int8_t codes[kMaxBlockElements];
  float scales[kMaxBlockElements], minimums[kMaxBlockElements] = {};
  format.unpack(block, codes, scales, minimums);
  const int64_t size = format.scale_elements;
  for (int64_t at = 0, j = 0; at < format.block_elements; at += size, ++j)
    scale_codes(codes + at, size, scales[j], format.has_minimums ? minimums[j] : 0.0f, values + at);
}

class MoeGroupedGemmByFormat final : public MoeGroupedGemm {
 public:
  explicit MoeGroupedGemmByFormat(const Init& init)
      : MoeGroupedGemm(init), format_(init.weight_format.empty() ? nullptr : &weight_format(init.weight_format)) {}

  std::string_view refuse(Args args) const override {
    if (format_ == nullptr) return "its weights are in a format";
    if (args[0]->dtype() != init_.dtype) return "x must have the dtype of the model";
    if (args[1]->dtype() != DType::kI32 || args[2]->dtype() != DType::kI32)
      return "sorted_token_ids and expert_offsets must be i32";
    if (!args[1]->contiguous() || !args[2]->contiguous()) return "the ids are not contiguous";
    return refuse_floats({&args[0], &args[3]});
  }

  void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) override {
    const auto* pairs = sorted_token_ids.ptr<int32_t>();
    const auto* offsets = expert_offsets.ptr<int32_t>();
    for (int64_t e = 0; e < init_.num_experts; ++e) {
      int64_t rows = offsets[e + 1] - offsets[e];
      if (rows == 0) continue;
      Arena::Mark mark = ctx.arena.mark();
      with_float(x.dtype(), [&]<class T>(T) {
        if (rows < kManyRows && !batch_invariant())
          multiply_rows<T>(ctx, e, x, pairs + offsets[e], rows, out);
        else
          multiply_matrix<T>(ctx, e, x, pairs + offsets[e], rows, out);
      });
      ctx.arena.release(mark);
    }
  }

 private:
  const std::byte* weight_row(int64_t expert, int64_t n) const {
    return static_cast<const std::byte*>(weight().data()) +
           (expert * init_.out_features + n) * format_->row_bytes(init_.in_features);
  }

  template <class T>
  void multiply_rows(Context& ctx, int64_t e, const View& x, const int32_t* pairs, int64_t rows,
                     const View& out) const {
    const int64_t K = init_.in_features;
    auto* wide = ctx.arena.make({{rows, K}, DType::kF32}).ptr<float>();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < K; ++k) wide[i * K + k] = load(row_of<T>(x, input_row(pairs[i]))[k]);
    auto* scratch = ctx.arena.make({{ctx.pool.threads(), K}, DType::kF32}).ptr<float>();
    OptView biases = bias();
    const T* start = biases ? row_of<T>(*biases, e) : nullptr;
    constexpr int64_t kRowsPerTask = 16;
    const int64_t tasks = (init_.out_features + kRowsPerTask - 1) / kRowsPerTask;
    for_items(ctx.pool, tasks, [&](int thread, int64_t task) {
      float* row = scratch + thread * K;
      int64_t end = std::min((task + 1) * kRowsPerTask, init_.out_features);
      for (int64_t n = task * kRowsPerTask; n < end; ++n) {
        for (int64_t k = 0; k < K; k += format_->block_elements)
          widen_block(*format_, weight_row(e, n) + format_->row_bytes(k), row + k);
        for (int64_t i = 0; i < rows; ++i)
          store(row_of<T>(out, pairs[i])[n],
                dot_of_rows(row, wide + i * K, K) + (start != nullptr ? load(start[n]) : 0.0f));
      }
    });
  }

  template <class T>
  void multiply_matrix(Context& ctx, int64_t e, const View& x, const int32_t* pairs, int64_t rows,
                       const View& out) const {
    const int64_t K = init_.in_features, N = init_.out_features;
    View matrix = ctx.arena.make({{N, K}, x.dtype()}), grouped = ctx.arena.make({{rows, K}, x.dtype()}),
         results = ctx.arena.make({{rows, N}, x.dtype()});
    for_rows(ctx.pool, N, K, [&](int64_t begin, int64_t end) {
      float block[kMaxBlockElements];
      const int64_t size = format_->block_elements;
      for (int64_t n = begin; n < end; ++n)
        for (int64_t k = 0; k < K; k += size) {
          widen_block(*format_, weight_row(e, n) + format_->row_bytes(k), block);
          T* to = row_of<T>(matrix, n) + k;
          for (int64_t j = 0; j < size; ++j) store(to[j], block[j]);
        }
    });
    for_rows(ctx.pool, rows, K, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::copy_n(row_of<T>(x, input_row(pairs[i])), K, row_of<T>(grouped, i));
    });
    fastest_matmul(x.dtype())({.m = rows,
                               .n = N,
                               .k = K,
                               .x = grouped.data(),
                               .x_stride = K,
                               .w = matrix.data(),
                               .w_stride = K,
                               .bias = init_.bias ? bias()->select(0, e).data() : nullptr,
                               .y = results.data(),
                               .y_stride = N,
                               .dtype = x.dtype(),
                               .y_dtype = x.dtype()},
                              ctx.pool);
    for_rows(ctx.pool, rows, N, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::copy_n(row_of<T>(results, i), N, row_of<T>(out, pairs[i]));
    });
  }

  const WeightFormat* format_;
};

FK_IMPLEMENTATION(MoeGroupedGemm, MoeGroupedGemmByFormat, "cpu.dequantised", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
