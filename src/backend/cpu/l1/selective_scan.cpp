// SelectiveScan on CPU. Several tokens: 16 channels side by side in vectors, their states kept in L1 from token to
// token. One token: the states of a channel side by side, as they lie in memory.
#include "ops/l1/selective_scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int kScanLanes = 16;            // channels of a block
constexpr int64_t kMostScanStates = 256;  // N

// Rows of tokens, `stride` elements apart.
template <class T>
struct ScanRows {
  T* at;
  int64_t stride;
  FK_INLINE T* row(int64_t t) const { return at + t * stride; }
};

template <class T>
struct ScanCall {
  ScanRows<const T> u, delta, B, C, z;
  ScanRows<T> out;
  const float *bias, *skip;  // of the first channel on
  int64_t states;            // N
};

FK_INLINE float scan_gate(float y, float z) { return y * (z / (1.0f + vexp_bounded(-z))); }

// Tokens first .. last-1 of up to 16 channels, whose A and states are [N, 16].
template <class T>
FK_INLINE void scan_block_body(const ScanCall<T>& call, int64_t first, int64_t last, int64_t lanes, const float* A,
                               float* h) {
  const int64_t N = call.states;
  float dt[kScanLanes] = {}, input[kScanLanes] = {}, y[kScanLanes] = {}, b[kMostScanStates], c[kMostScanStates];
  for (int64_t t = first; t < last; ++t) {
    const T *u = call.u.row(t), *delta = call.delta.row(t), *B = call.B.row(t), *C = call.C.row(t), *z = call.z.row(t);
    auto begin = [&](int64_t j) {
      float x = load(u[j]);
      dt[j] = softplus(load(delta[j]) + call.bias[j]);
      input[j] = dt[j] * x;
      y[j] = call.skip[j] * x;
    };
    if (lanes == kScanLanes) {
#pragma omp simd
      for (int j = 0; j < kScanLanes; ++j) begin(j);
    } else {
      for (int64_t j = 0; j < lanes; ++j) begin(j);
    }
#pragma omp simd
    for (int64_t n = 0; n < N; ++n) b[n] = load(B[n]);
#pragma omp simd
    for (int64_t n = 0; n < N; ++n) c[n] = load(C[n]);
    float sum[kScanLanes];
#pragma omp simd
    for (int j = 0; j < kScanLanes; ++j) sum[j] = y[j];
    for (int64_t n = 0; n < N; ++n) {
      const float bn = b[n], cn = c[n];
#pragma omp simd
      for (int j = 0; j < kScanLanes; ++j) {
        float state = vexp_bounded(dt[j] * A[n * kScanLanes + j]) * h[n * kScanLanes + j] + input[j] * bn;
        h[n * kScanLanes + j] = state;
        sum[j] += state * cn;
      }
    }
    T* out = call.out.row(t);
    if (lanes == kScanLanes) {
#pragma omp simd
      for (int j = 0; j < kScanLanes; ++j) store(out[j], scan_gate(sum[j], load(z[j])));
    } else {
      for (int64_t j = 0; j < lanes; ++j) store(out[j], scan_gate(sum[j], load(z[j])));
    }
  }
}

FK_SIMD_CLONES void scan_block(const ScanCall<bf16>& call, int64_t first, int64_t last, int64_t lanes, const float* A,
                               float* h) {
  scan_block_body(call, first, last, lanes, A, h);
}
FK_SIMD_CLONES void scan_block(const ScanCall<f16>& call, int64_t first, int64_t last, int64_t lanes, const float* A,
                               float* h) {
  scan_block_body(call, first, last, lanes, A, h);
}
FK_SIMD_CLONES void scan_block(const ScanCall<float>& call, int64_t first, int64_t last, int64_t lanes, const float* A,
                               float* h) {
  scan_block_body(call, first, last, lanes, A, h);
}

// Token t of `channels` channels, whose A and states are [channels, N].
template <class T>
FK_INLINE void scan_step_body(const ScanCall<T>& call, int64_t t, int64_t channels, const float* A, float* h) {
  const int64_t N = call.states;
  const T *u = call.u.row(t), *delta = call.delta.row(t), *B = call.B.row(t), *C = call.C.row(t), *z = call.z.row(t);
  T* out = call.out.row(t);
  float b[kMostScanStates], c[kMostScanStates];
#pragma omp simd
  for (int64_t n = 0; n < N; ++n) b[n] = load(B[n]);
#pragma omp simd
  for (int64_t n = 0; n < N; ++n) c[n] = load(C[n]);
  for (int64_t d = 0; d < channels; d += kScanLanes) {
    const int64_t lanes = std::min<int64_t>(kScanLanes, channels - d);
    float dt[kScanLanes] = {}, y[kScanLanes] = {};
#pragma omp simd
    for (int64_t j = 0; j < lanes; ++j) dt[j] = softplus(load(delta[d + j]) + call.bias[d + j]);
    for (int64_t j = 0; j < lanes; ++j) {
      const float* a = A + (d + j) * N;
      float* state = h + (d + j) * N;
      const float step = dt[j], input = step * load(u[d + j]);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t n = 0; n < N; ++n) {
        float now = vexp_bounded(step * a[n]) * state[n] + input * b[n];
        state[n] = now;
        sum += now * c[n];
      }
      y[j] = sum + call.skip[d + j] * load(u[d + j]);
    }
#pragma omp simd
    for (int64_t j = 0; j < lanes; ++j) store(out[d + j], scan_gate(y[j], load(z[d + j])));
  }
}

FK_SIMD_CLONES void scan_step(const ScanCall<bf16>& call, int64_t t, int64_t channels, const float* A, float* h) {
  scan_step_body(call, t, channels, A, h);
}
FK_SIMD_CLONES void scan_step(const ScanCall<f16>& call, int64_t t, int64_t channels, const float* A, float* h) {
  scan_step_body(call, t, channels, A, h);
}
FK_SIMD_CLONES void scan_step(const ScanCall<float>& call, int64_t t, int64_t channels, const float* A, float* h) {
  scan_step_body(call, t, channels, A, h);
}

class SelectiveScanChannels final : public SelectiveScan {
 public:
  using SelectiveScan::SelectiveScan;

  std::string_view refuse(Args args) const override {
    if (init_.state_size > kMostScanStates) return "it has at most 256 states a channel";
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[4], &args[8]}) : why;
  }

  void forward(Context& ctx, View u, View delta, View B, View C, View z, View ssm_state, View state_slots,
               OptView cu_seqlens, View out) override {
    const int64_t D = init_.dim, N = init_.state_size, S = state_slots.size(0);
    const int64_t blocks = (D + kScanLanes - 1) / kScanLanes;
    const auto* slots = state_slots.ptr<int32_t>();
    const int32_t* offsets = cu_seqlens ? cu_seqlens->ptr<int32_t>() : nullptr;
    const int64_t tokens = S > 0 ? std::max<int64_t>(1, u.size(0) / S) : 1;
    with_float(u.dtype(), [&]<class T>(T) {
      auto rows = [](const View& v) { return ScanRows<const T>{v.ptr<T>(), v.stride(0)}; };
      const ScanCall<T> whole{rows(u),      rows(delta),  rows(B), rows(C), rows(z), {out.ptr<T>(), out.stride(0)},
                              bias_.data(), skip_.data(), N};
      // An exponential takes as long as some ten elements of a plain kernel.
      for_rows(ctx.pool, S * blocks, tokens * kScanLanes * N * 4, [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end;) {
          const int64_t s = item / blocks, d = item % blocks * kScanLanes;
          const int64_t count = std::min(end - item, blocks - item % blocks);  // of this sequence
          const int64_t first = offsets != nullptr ? offsets[s] : s, last = offsets != nullptr ? offsets[s + 1] : s + 1;
          float* state = slots[s] >= 0 ? ssm_state.ptr<float>() + slots[s] * ssm_state.stride(0) + d * N : nullptr;
          scan(from_channel(whole, d), first, last, d, std::min(D - d, count * kScanLanes), state);
          item += count;
        }
      });
    });
  }

 private:
  template <class T>
  static ScanCall<T> from_channel(ScanCall<T> call, int64_t d) {
    for (ScanRows<const T>* rows : {&call.u, &call.delta, &call.z}) rows->at += d;
    call.out.at += d;
    call.bias += d;
    call.skip += d;
    return call;
  }

  // Channels d .. d + channels - 1 of one sequence, whose pointers in `call` and `state` begin at channel d.
  template <class T>
  void scan(const ScanCall<T>& call, int64_t first, int64_t last, int64_t d, int64_t channels, float* state) const {
    const int64_t N = init_.state_size;
    if (first == last) return;
    if (last - first == 1 && state != nullptr)
      return scan_step(call, first, channels, by_channel_.data() + d * N, state);
    for (int64_t at = 0; at < channels; at += kScanLanes) {
      const int64_t lanes = std::min<int64_t>(kScanLanes, channels - at);
      alignas(64) float h[kMostScanStates * kScanLanes];
      std::fill_n(h, N * kScanLanes, 0.0f);
      if (state != nullptr)
        for (int64_t j = 0; j < lanes; ++j)
          for (int64_t n = 0; n < N; ++n) h[n * kScanLanes + j] = state[(at + j) * N + n];
      scan_block(from_channel(call, at), first, last, lanes, by_block_.data() + (d + at) * N, h);
      if (state != nullptr)
        for (int64_t j = 0; j < lanes; ++j)
          for (int64_t n = 0; n < N; ++n) state[(at + j) * N + n] = h[n * kScanLanes + j];
    }
  }

  void prepare() override {
    const int64_t D = init_.dim, N = init_.state_size, padded = (D + kScanLanes - 1) / kScanLanes * kScanLanes;
    by_channel_.resize(static_cast<size_t>(D * N));
    by_block_.assign(static_cast<size_t>(padded * N), 0);
    bias_.resize(static_cast<size_t>(D));
    skip_.resize(static_cast<size_t>(D));
    for (int64_t d = 0; d < D; ++d) {
      bias_[static_cast<size_t>(d)] = static_cast<float>(get(dt_bias(), d));
      skip_[static_cast<size_t>(d)] = static_cast<float>(get(skip(), d));
      for (int64_t n = 0; n < N; ++n) {
        auto a = static_cast<float>(-std::exp(get(A_log(), d, n)));
        by_channel_[static_cast<size_t>(d * N + n)] = a;
        by_block_[static_cast<size_t>((d / kScanLanes * N + n) * kScanLanes + d % kScanLanes)] = a;
      }
    }
  }

  std::vector<float> by_channel_, by_block_;  // A as [D, N], and as [D / 16, N, 16]
  std::vector<float> bias_, skip_;
};

FK_IMPLEMENTATION(SelectiveScan, SelectiveScanChannels, "cpu.channels", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
