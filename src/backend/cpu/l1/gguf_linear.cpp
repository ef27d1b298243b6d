// `gguf_linear` on any CPU and for every format: a row of weights is unpacked once and multiplied by all tokens.
#include "backend/cpu/l1/gguf_linear_call.h"
#include "backend/cpu/quantised/rounded_rows.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int64_t kPiece = 16;  // rows of weights whose sums are stored together

// Sum over one row: groups of kGroup codes share a scale, which divides the 32 that share one of x.
template <int64_t kGroup>
FK_INLINE float dot_body(const int8_t* w, const float* w_scales, const int8_t* x, const float* x_scales, int64_t k) {
  float sum = 0;
  for (int64_t at = 0; at < k; at += kGroup) {
    int32_t products = 0;
    for (int64_t i = 0; i < kGroup; ++i) products += static_cast<int16_t>(w[at + i]) * static_cast<int16_t>(x[at + i]);
    sum += w_scales[at / kGroup] * x_scales[at / kRoundedGroup] * static_cast<float>(products);
  }
  return sum;
}

FK_SIMD_CLONES float dot_32(const int8_t* w, const float* w_scales, const int8_t* x, const float* x_scales, int64_t k) {
  return dot_body<32>(w, w_scales, x, x_scales, k);
}
FK_SIMD_CLONES float dot_16(const int8_t* w, const float* w_scales, const int8_t* x, const float* x_scales, int64_t k) {
  return dot_body<16>(w, w_scales, x, x_scales, k);
}

class GGUFLinearPortable final : public GGUFLinearCall {
 public:
  using GGUFLinearCall::GGUFLinearCall;

  std::string_view refuse(Args args) const override {
    for (const Part& part : parts_)
      if (part.format->scale_elements != 32 && part.format->scale_elements != 16)
        return "the groups of the format are neither of 32 nor of 16 elements";
    return GGUFLinearCall::refuse(args);
  }

  void forward(Context& ctx, View x, View out) override {
    RoundedParts rounded = round_for_parts(x, ctx);
    for (size_t p = 0; p < parts_.size(); ++p) {
      const RoundedRows& rows = rounded.of(rounded_group(p));
      int64_t pieces = (parts_[p].rows + kPiece - 1) / kPiece;
      // One unpacked row per thread would do; a piece of work has no thread number, so each has its own.
      int64_t tasks = std::min<int64_t>(pieces, 4 * ctx.pool.threads()),
              groups = rows.k / parts_[p].format->scale_elements;
      View codes = ctx.arena.make({{tasks, rows.k}, DType::kI8});
      View scales = ctx.arena.make({{tasks, 2, groups}, DType::kF32});
      View sums = ctx.arena.make({{tasks, rows.m, kPiece}, DType::kF32});
      ctx.pool.parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task)
          for (int64_t piece = pieces * task / tasks; piece < pieces * (task + 1) / tasks; ++piece)
            multiply(p, piece * kPiece, rows, codes.ptr<int8_t>() + task * rows.k,
                     scales.ptr<float>() + task * 2 * groups, sums.ptr<float>() + task * rows.m * kPiece, out);
      });
    }
  }

 private:
  void multiply(size_t p, int64_t row, const RoundedRows& x, int8_t* codes, float* scales, float* sums,
                const View& out) const {
    const WeightFormat& format = *parts_[p].format;
    int64_t count = std::min(kPiece, parts_[p].rows - row), groups = x.k / format.scale_elements;
    float* minimums = scales + groups;
    for (int64_t n = 0; n < count; ++n) {
      const std::byte* blocks = row_bytes(p, row + n);
      int64_t per_block = format.block_elements / format.scale_elements;
      for (int64_t b = 0; b * format.block_elements < x.k; ++b)
        format.unpack(blocks + b * format.block_bytes, codes + b * format.block_elements, scales + b * per_block,
                      minimums + b * per_block);
      for (int64_t t = 0; t < x.m; ++t) {
        const float* x_scales = x.scales + t * x.groups();
        float sum = format.scale_elements == 32 ? dot_32(codes, scales, x.codes + t * x.k, x_scales, x.k)
                                                : dot_16(codes, scales, x.codes + t * x.k, x_scales, x.k);
        if (format.has_minimums)
          for (int64_t g = 0; g < groups; ++g) sum -= minimums[g] * group_sum(x, t, g, format.scale_elements);
        sums[t * kPiece + n] = sum;
      }
    }
    for (int64_t t = 0; t < x.m; ++t) store_sums(out, t, parts_[p].row + row, sums + t * kPiece, count);
  }

  static float group_sum(const RoundedRows& x, int64_t t, int64_t g, int64_t elements) {
    if (elements == kRoundedGroup) return x.sums[t * x.groups() + g];
    int32_t sum = 0;
    for (int64_t i = g * elements; i < (g + 1) * elements; ++i) sum += x.codes[t * x.k + i];
    return x.scales[t * x.groups() + g * elements / kRoundedGroup] * static_cast<float>(sum);
  }
};

FK_IMPLEMENTATION(GGUFLinear, GGUFLinearPortable, "cpu.portable", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
