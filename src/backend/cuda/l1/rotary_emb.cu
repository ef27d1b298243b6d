// RotaryEmbedding on CUDA: a block per token computes its sines and cosines once, then rotates every head.
#include "ops/l1/rotary_emb.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/l1/rotary_angles.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kMaxThreads = 512;

template <class T>
struct Heads {
  T* at;
  int64_t stride;  // from token to token
  unsigned count;
};

// Element i of a pair list lies at i * step, its partner `partner` further.
template <class T, int N>
__global__ void __launch_bounds__(kMaxThreads)
    turn_token(const __grid_constant__ RotaryFrequencies frequencies, const int64_t* positions, int64_t position_stride,
               Heads<T> query, Heads<T> key, unsigned head_size, unsigned step, unsigned partner) {
  __shared__ TokenAngles angles;
  let_next_start();
  wait_for_previous();
  const int64_t token = blockIdx.x;
  angles.compute(frequencies, positions[token * position_stride]);
  __syncthreads();
  const unsigned per_head = static_cast<unsigned>(frequencies.pairs) / N;  // packs, or pairs
  for (unsigned item = threadIdx.x; item < (query.count + key.count) * per_head; item += blockDim.x) {
    const unsigned head = item / per_head, first = item % per_head * N;
    T* of_head = head < query.count ? query.at + token * query.stride + head * head_size
                                    : key.at + token * key.stride + (head - query.count) * head_size;
    T* at = of_head + first * step;
    Pack<T, N> a = load_pack<T, N>(at), b = load_pack<T, N>(at + partner);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float x = to_float(a.at[k]), y = to_float(b.at[k]);
      const float c = angles.cos[first + k], s = angles.sin[first + k];
      a.at[k] = from_float<T>(x * c - y * s);
      b.at[k] = from_float<T>(y * c + x * s);
    }
    store_pack<T, N>(at, a);
    store_pack<T, N>(at + partner, b);
  }
}

class RotaryEmbeddingTokenPerBlock final : public RotaryEmbedding {
 public:
  explicit RotaryEmbeddingTokenPerBlock(const Init& init) : RotaryEmbedding(init) {
    if (fits()) frequencies_ = RotaryFrequencies::of(inverse_frequencies(init), init.rope_scaling.attention_factor);
  }

  std::string_view refuse(Args args) const override {
    if (!fits()) return "it rotates at most 512 elements of a head";
    if (args[0]->dtype() != DType::kI64) return "positions must be i64";
    return refuse_floats({&args[1], &args[2]});
  }

  void forward(Context& ctx, View positions, View query, OptView key) override {
    int64_t half = init_.rotary_dim / 2, size = static_cast<int64_t>(dtype_size(query.dtype()));
    bool packs = init_.is_neox_style && half * size % 16 == 0 && init_.head_size * size % 16 == 0 &&
                 init_.rotary_offset * size % 16 == 0 && rows_fit_packs(query) && rows_fit_packs(key);
    with_packs(query.dtype(), packs, [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      auto heads = [&](const View& v) {
        return Heads<T>{static_cast<T*>(v.data()) + init_.rotary_offset, v.stride(0), static_cast<unsigned>(v.size(1) / init_.head_size)};
      };
      Heads<T> queries = heads(query), keys = key ? heads(*key) : Heads<T>{nullptr, 0, 0};
      auto items = (queries.count + keys.count) * static_cast<unsigned>(half) / N;
      unsigned rounds = std::max(1u, (items + kMaxThreads - 1) / kMaxThreads);
      unsigned threads = std::max(1u, ((items + rounds - 1) / rounds + 31) / 32) * 32;
      launch("rotary_emb", turn_token<T, N>, static_cast<unsigned>(positions.size(0)), threads, 0, ctx.stream,
             frequencies_, positions.ptr<int64_t>(), positions.stride(0), queries, keys,
             static_cast<unsigned>(init_.head_size), init_.is_neox_style ? 1u : 2u,
             init_.is_neox_style ? static_cast<unsigned>(half) : 1u);
    });
  }

 private:
  bool fits() const { return init_.rotary_dim / 2 <= kMaxRotaryPairs; }

  RotaryFrequencies frequencies_{};
};

FK_IMPLEMENTATION(RotaryEmbedding, RotaryEmbeddingTokenPerBlock, "cuda.token_per_block", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
