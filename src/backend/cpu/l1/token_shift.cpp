// TokenShift on CPU: a thread takes whole sequences, whose state it reads before and writes after their tokens.
#include "ops/l1/token_shift.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int64_t kShiftPiece = 512;  // channels that a thread takes at once

template <class T>
FK_INLINE void shift_body(const T* before, const T* now, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store(out[i], load(before[i]) - load(now[i]));
}
FK_SIMD_CLONES void shift_row(const bf16* before, const bf16* now, bf16* out, int64_t n) {
  shift_body(before, now, out, n);
}
FK_SIMD_CLONES void shift_row(const f16* before, const f16* now, f16* out, int64_t n) {
  shift_body(before, now, out, n);
}
FK_SIMD_CLONES void shift_row(const float* before, const float* now, float* out, int64_t n) {
  shift_body(before, now, out, n);
}

class TokenShiftRows final : public TokenShift {
 public:
  using TokenShift::TokenShift;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[4]}) : why;
  }

  void forward(Context& ctx, View x, View shift_state, View state_slots, OptView cu_seqlens, View out) override {
    const int64_t D = init_.hidden_size, pieces = (D + kShiftPiece - 1) / kShiftPiece;
    with_float(x.dtype(), [&]<class T>(T) {
      auto sequence = [&](int64_t s, int64_t piece) {
        const int64_t begin = cu_seqlens ? cu_seqlens->ptr<int32_t>()[s] : s;
        const int64_t end = cu_seqlens ? cu_seqlens->ptr<int32_t>()[s + 1] : s + 1;
        if (begin >= end) return;
        const int64_t first = piece * kShiftPiece, n = std::min(kShiftPiece, D - first);
        const int32_t slot = state_slots.ptr<int32_t>()[s];
        T zeros[kShiftPiece] = {};
        T* stored = slot < 0 ? nullptr : row_of<T>(shift_state, slot) + first;
        shift_row(stored == nullptr ? zeros : stored, row_of<T>(x, begin) + first, row_of<T>(out, begin) + first, n);
        for (int64_t t = begin + 1; t < end; ++t)
          shift_row(row_of<T>(x, t - 1) + first, row_of<T>(x, t) + first, row_of<T>(out, t) + first, n);
        if (stored != nullptr) std::memcpy(stored, row_of<T>(x, end - 1) + first, static_cast<size_t>(n) * sizeof(T));
      };
      const int64_t items = state_slots.size(0) * pieces;
      if (x.numel() <= kElementsPerTask) {  // waking threads takes longer
        for (int64_t i = 0; i < items; ++i) sequence(i / pieces, i % pieces);
        return;
      }
      for_items(ctx.pool, items, [&](int, int64_t i) { sequence(i / pieces, i % pieces); });
    });
  }
};

FK_IMPLEMENTATION(TokenShift, TokenShiftRows, "cpu.sequences", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
