// TTTLinear on CUDA: a block for each head of a sequence, a thread for each column of its model. Tokens of a piece of a
// mini-batch share one pass over the model, which stays in L2; with pieces of one token it is the form for decoding.
#include "ops/l1/ttt_linear.h"

#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kTttMostColumns = 256;

template <class T>
struct TttHeads {
  T* at;
  int64_t token_stride, head_stride;
  __device__ T* row(int64_t t, int64_t h) const { return at + t * token_stride + h * head_stride; }
};

template <class T>
struct TttCall {
  TttHeads<const T> q, k, v;
  TttHeads<T> out;
  const float* eta;
  int64_t eta_stride;
  const int64_t* positions;
  float* state;
  int64_t state_stride;
  const int32_t *slots, *offsets;  // offsets: null where every sequence has one token
  const T *norm_weight, *norm_bias, *W1, *b1;
  int heads, D, mini_batch;
  float scale, eps;
};

// Mean and one over the root of variance and eps of each of `rows` rows of D numbers in shared memory: a warp for each.
__device__ void ttt_moments(const float* rows, int tokens, int D, float eps, float* mean, float* inverse_root) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int i = warp; i < tokens; i += warps) {
    float sum = 0;
    for (int j = lane; j < D; j += 32) sum += rows[i * D + j];
    const float m = reduce_warp<Sum>(sum) / static_cast<float>(D);
    float squares = 0;
    for (int j = lane; j < D; j += 32) squares += (rows[i * D + j] - m) * (rows[i * D + j] - m);
    const float variance = reduce_warp<Sum>(squares) / static_cast<float>(D);
    if (lane == 0) {
      mean[i] = m;
      inverse_root[i] = 1.0f / sqrtf(variance + eps);
    }
  }
}

template <class T, int kPiece>
__global__ void __launch_bounds__(kTttMostColumns) ttt_pieces(const TttCall<T> call) {
  extern __shared__ float ttt_shared[];
  wait_for_previous();
  const int D = call.D, j = threadIdx.x;
  const bool active = j < D;
  float *q = ttt_shared, *k = q + kPiece * D, *a = k + kPiece * D, *b = a + kPiece * D;
  __shared__ float mean[kPiece], inverse_root[kPiece], along[kPiece], products[kPiece][kPiece];
  const int64_t s = blockIdx.x / call.heads, h = blockIdx.x % call.heads, slot = call.slots[s];
  const int64_t first = call.offsets == nullptr ? s : call.offsets[s],
                last = call.offsets == nullptr ? s + 1 : call.offsets[s + 1];
  if (slot < 0) {  // padding
    for (int64_t t = first; t < last; ++t)
      if (active) call.out.row(t, h)[j] = from_float<T>(0.0f);
    return;
  }
  float* state = call.state + slot * call.state_stride + h * 2 * (D + 1) * D;
  float* changes = state + (D + 1) * D;
  const T *W1 = call.W1 + h * D * D, *b1 = call.b1 + h * D;
  const float weight = active ? to_float(call.norm_weight[h * D + j]) : 0.0f,
              bias = active ? to_float(call.norm_bias[h * D + j]) : 0.0f;
  for (int64_t at = first; at < last;) {
    const int place = static_cast<int>(call.positions[at] % call.mini_batch);
    int tokens = last - at < kPiece ? static_cast<int>(last - at) : kPiece;
    if (tokens > call.mini_batch - place) tokens = call.mini_batch - place;
    const bool begins = place == 0, ends = place + tokens == call.mini_batch;
    float target[kPiece], z[kPiece], o[kPiece], g[kPiece];
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      target[i] = 0;
      if (!active) continue;
      const bool exists = i < tokens;
      const float key = exists ? to_float(call.k.row(at + i, h)[j]) : 0.0f;
      k[i * D + j] = key;
      q[i * D + j] = exists ? call.scale * to_float(call.q.row(at + i, h)[j]) : 0.0f;
      if (exists) target[i] = to_float(call.v.row(at + i, h)[j]) - key;
    }
    __syncthreads();
    // z = k W + b and o = u W + b; what the mini-batch has changed before is in g for now.
    const float start = active ? state[D * D + j] + to_float(b1[j]) : 0.0f,
                before = active && !begins ? changes[D * D + j] : 0.0f;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      z[i] = o[i] = start;
      g[i] = before;
    }
    for (int d = 0; d < D && active; ++d) {
      const float w = state[d * D + j] + to_float(W1[d * D + j]), change = begins ? 0.0f : changes[d * D + j];
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        z[i] += k[i * D + d] * w;
        o[i] += q[i * D + d] * w;
        g[i] += q[i * D + d] * change;
      }
    }
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (i < tokens) o[i] -= call.eta[(at + i) * call.eta_stride + h] * g[i];
      if (active) a[i * D + j] = z[i];
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int pair = warp; pair < tokens * tokens; pair += warps) {
      const int row = pair / tokens, column = pair % tokens;
      if (column > row) continue;
      float sum = 0;
      for (int d = lane; d < D; d += 32) sum += q[row * D + d] * k[column * D + d];
      sum = reduce_warp<Sum>(sum);
      if (lane == 0) products[row][column] = sum + 1;  // and the bias
    }
    __syncthreads();
    ttt_moments(a, tokens, D, call.eps, mean, inverse_root);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (i >= tokens || !active) continue;
      z[i] = (z[i] - mean[i]) * inverse_root[i];
      g[i] = weight * (weight * z[i] + bias - target[i]);
      a[i * D + j] = z[i];
      b[i * D + j] = g[i];
    }
    __syncthreads();
    for (int i = warp; i < tokens; i += warps) {
      float sum = 0, with_z = 0;
      for (int d = lane; d < D; d += 32) {
        sum += b[i * D + d];
        with_z += b[i * D + d] * a[i * D + d];
      }
      sum = reduce_warp<Sum>(sum);
      with_z = reduce_warp<Sum>(with_z);
      if (lane == 0) {
        mean[i] = sum / static_cast<float>(D);
        along[i] = with_z / static_cast<float>(D);
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPiece; ++i) g[i] = i < tokens ? (g[i] - mean[i] - z[i] * along[i]) * inverse_root[i] : 0.0f;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (i >= tokens) continue;
      float sum = 0;
#pragma unroll
      for (int n = 0; n <= i; ++n) sum += products[i][n] * g[n];
      o[i] -= call.eta[(at + i) * call.eta_stride + h] * sum;
      if (active) a[i * D + j] = o[i];
    }
    __syncthreads();
    ttt_moments(a, tokens, D, call.eps, mean, inverse_root);
    __syncthreads();
    const float rate = call.eta[(at + tokens - 1) * call.eta_stride + h];
    if (active) {
#pragma unroll
      for (int i = 0; i < kPiece; ++i)
        if (i < tokens)
          call.out.row(at + i, h)[j] = from_float<T>(o[i] + (o[i] - mean[i]) * inverse_root[i] * weight + bias);
      for (int d = 0; d <= D; ++d) {
        float sum = begins ? 0.0f : changes[d * D + j];
#pragma unroll
        for (int i = 0; i < kPiece; ++i) sum += (d < D ? k[i * D + d] : 1.0f) * g[i];
        if (ends) state[d * D + j] -= rate * sum;
        changes[d * D + j] = ends ? 0.0f : sum;
      }
    }
    __syncthreads();  // k and q are read until here
    at += tokens;
  }
  let_next_start();
}

template <class T, int kPiece>
void run_ttt(const TttCall<T>& call, int64_t sequences, void* stream) {
  const size_t bytes = 4 * static_cast<size_t>(kPiece * call.D) * sizeof(float);
  const auto threads = static_cast<unsigned>((call.D + 31) / 32 * 32);
  launch("ttt_linear", ttt_pieces<T, kPiece>, dim3(static_cast<unsigned>(sequences * call.heads)), dim3(threads), bytes,
         stream, call);
}

// kPiece: tokens that share a pass over the model.
template <int kPiece>
class TTTLinearPieces final : public TTTLinear {
 public:
  using TTTLinear::TTTLinear;

  std::string_view refuse(Args args) const override {
    if (init_.head_dim > kTttMostColumns) return "heads have at most 256 elements";
    if (kPiece > 1 && !args[7]) return "one token of each sequence is no piece of a mini-batch";
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[8]}) : why;
  }

  void forward(Context& ctx, View q, View k, View v, View eta, View positions, View ttt_state, View state_slots,
               OptView cu_seqlens, View out) override {
    if (q.size(0) == 0) return;
    with_float_type(q.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      auto heads = [](const View& x) {
        return TttHeads<const T>{static_cast<const T*>(x.data()), x.stride(0), x.stride(1)};
      };
      TttCall<T> call{};
      call.q = heads(q);
      call.k = heads(k);
      call.v = heads(v);
      call.out = {static_cast<T*>(out.data()), out.stride(0), out.stride(1)};
      call.eta = eta.ptr<float>();
      call.eta_stride = eta.stride(0);
      call.positions = positions.ptr<int64_t>();
      call.state = ttt_state.ptr<float>();
      call.state_stride = ttt_state.stride(0);
      call.slots = state_slots.ptr<int32_t>();
      call.offsets = cu_seqlens ? cu_seqlens->ptr<int32_t>() : nullptr;
      call.norm_weight = static_cast<const T*>(norm_weight().data());
      call.norm_bias = static_cast<const T*>(norm_bias().data());
      call.W1 = static_cast<const T*>(W1().data());
      call.b1 = static_cast<const T*>(b1().data());
      call.heads = static_cast<int>(init_.num_heads);
      call.D = static_cast<int>(init_.head_dim);
      call.mini_batch = static_cast<int>(init_.mini_batch_size);
      call.scale = static_cast<float>(init_.query_scale());
      call.eps = static_cast<float>(init_.eps);
      // Four rows of floats for each token fit into 48 KiB.
      if (kPiece > 8 && init_.head_dim > 128)
        run_ttt<T, 8>(call, state_slots.size(0), ctx.stream);
      else
        run_ttt<T, kPiece>(call, state_slots.size(0), ctx.stream);
    });
  }
};

using TTTLinearMiniBatches = TTTLinearPieces<16>;
using TTTLinearSteps = TTTLinearPieces<1>;
FK_IMPLEMENTATION(TTTLinear, TTTLinearMiniBatches, "cuda.mini_batches", DeviceKind::kCuda, 1, nullptr);
FK_IMPLEMENTATION(TTTLinear, TTTLinearSteps, "cuda.steps", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
