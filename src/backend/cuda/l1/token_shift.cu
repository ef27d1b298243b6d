// TokenShift on CUDA: a thread for each channel of a sequence's tokens, a few tokens at a time.
#include "ops/l1/token_shift.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kShiftThreads = 256;

// One block for 256 channels of all tokens of a sequence: the state is read before it is written, by the same thread.
template <class T>
__global__ void __launch_bounds__(kShiftThreads)
    shift_tokens(const T* x, int64_t x_stride, T* state, int64_t state_stride, const int32_t* slots,
                 const int32_t* starts, T* out, int64_t out_stride, int width) {
  let_next_start();
  wait_for_previous();
  const int i = blockIdx.y * kShiftThreads + threadIdx.x;
  if (i >= width) return;
  const int s = blockIdx.x;
  const int64_t begin = starts != nullptr ? starts[s] : s, end = starts != nullptr ? starts[s + 1] : s + 1;
  if (begin >= end) return;
  const int slot = slots[s];
  T* stored = state + slot * state_stride + i;
  T before = slot < 0 ? from_float<T>(0.0f) : *stored;
#pragma unroll 8
  for (int64_t t = begin; t < end; ++t) {
    const T now = x[t * x_stride + i];
    out[t * out_stride + i] = from_float<T>(to_float(before) - to_float(now));
    before = now;
  }
  if (slot >= 0) *stored = before;
}

class TokenShiftChannels final : public TokenShift {
 public:
  using TokenShift::TokenShift;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[4]}) : why;
  }

  void forward(Context& ctx, View x, View shift_state, View state_slots, OptView cu_seqlens, View out) override {
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const dim3 grid(static_cast<unsigned>(state_slots.size(0)), blocks_for(init_.hidden_size, kShiftThreads));
      launch("token_shift", shift_tokens<T>, grid, kShiftThreads, 0, ctx.stream, static_cast<const T*>(x.data()),
             x.stride(0), static_cast<T*>(shift_state.data()), shift_state.stride(0),
             static_cast<const int32_t*>(state_slots.data()),
             cu_seqlens ? static_cast<const int32_t*>(cu_seqlens->data()) : nullptr, static_cast<T*>(out.data()),
             out.stride(0), static_cast<int>(init_.hidden_size));
    });
  }
};

FK_IMPLEMENTATION(TokenShift, TokenShiftChannels, "cuda.channels", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
