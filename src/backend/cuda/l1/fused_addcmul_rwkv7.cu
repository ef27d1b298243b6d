// FusedAddcmulRWKV7 on CUDA: a thread for each channel of a token, which computes all its mixtures.
#include "ops/l1/fused_addcmul_rwkv7.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kMostMixtures = 8;

template <class T>
struct Mixtures {
  RowsOf<const T> x, delta;
  const T* weights[kMostMixtures];
  T* out;
  int count;
  int64_t width, part;  // elements of a token, and of a mixture of all tokens

  __device__ void compute(int64_t row, int64_t i) const {
    const float now = to_float(x.row(row)[i]), change = to_float(delta.row(row)[i]);
#pragma unroll
    for (int p = 0; p < kMostMixtures; ++p)
      if (p < count) out[p * part + row * width + i] = from_float<T>(fmaf(change, to_float(weights[p][i]), now));
  }
};

class FusedAddcmulChannels final : public FusedAddcmulRWKV7 {
 public:
  using FusedAddcmulRWKV7::FusedAddcmulRWKV7;

  std::string_view refuse(Args args) const override {
    if (!args[2]->contiguous()) return "out must have no gaps";
    if (parts() > kMostMixtures) return "it has at most 8 parts";
    return refuse_floats({&args[0], &args[1], &args[2]});
  }

  void forward(Context& ctx, View x, View delta, View out) override {
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      Mixtures<T> call{};
      call.x = rows_of<const T>(x);
      call.delta = rows_of<const T>(delta);
      for (int64_t p = 0; p < parts(); ++p)
        call.weights[p] = static_cast<const T*>(param(static_cast<size_t>(p)).data());
      call.out = static_cast<T*>(out.data());
      call.count = static_cast<int>(parts());
      call.width = init_.hidden_size;
      call.part = x.size(0) * init_.hidden_size;
      map_rows<1>("fused_addcmul_rwkv7", call, x, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(FusedAddcmulRWKV7, FusedAddcmulChannels, "cuda.channels", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
