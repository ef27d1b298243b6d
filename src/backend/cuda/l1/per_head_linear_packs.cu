// PerHeadLinear on CUDA for up to eight tokens: limited by reading the matrices, so they are read in packs of 16 bytes,
// the first of which are on their way before the block waits for the previous kernel.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/latent_parts.h"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/l1/per_head_call.cuh"
#include "ops/l1/per_head_linear.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kPackThreads = 256;
constexpr int kPackWarps = kPackThreads / 32;
constexpr int kPackTokens = 8;         // at most
constexpr int kN = 8;                  // elements of a pack
constexpr int kMostPackInputs = 1024;  // of kPackTokens tokens as floats in shared memory

template <class T>
struct PackedHeads {
  const T* weight;
  const T* x;
  T* out;
  int64_t x_token, x_head, out_token, out_head;
  int tokens, in, out_features, rows_per_head, first_row;

  __device__ const T* row(int head, int64_t row, int length) const {
    return weight + (static_cast<int64_t>(head) * rows_per_head + first_row + row) * length;
  }
};

template <class T>
__device__ __forceinline__ Pack<T, kN> load_weights(const T* from, bool exists) {
  Pack<T, kN> pack{};
  if (exists) pack = load_pack<T, kN>(from);
  return pack;
}

constexpr int kOutputsOfWarp = 4, kSteps = 2;

// x W^T: a warp has a few outputs of a head, whose rows it reads across its lanes.
template <class T, int kTokens>
__global__ void __launch_bounds__(kPackThreads) packs_of_outputs(const PackedHeads<T> call) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y;
  const int first = (static_cast<int>(blockIdx.x) * kPackWarps + warp) * kOutputsOfWarp;
  Pack<T, kN> w[kSteps][kOutputsOfWarp];
  auto load = [&](int k) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int r = 0; r < kOutputsOfWarp; ++r) {
        const int at = k + step * 32 * kN;
        w[step][r] =
            load_weights(call.row(head, first + r, call.in) + at, first + r < call.out_features && at < call.in);
      }
  };
  int k = lane * kN;
  load(k);
  let_next_start();
  wait_for_previous();
  float sum[kTokens][kOutputsOfWarp] = {};
  while (true) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int at = k + step * 32 * kN;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        if (at >= call.in || t >= call.tokens) continue;
        const auto x = load_pack<T, kN>(call.x + t * call.x_token + head * call.x_head + at);
#pragma unroll
        for (int i = 0; i < kN; ++i)
#pragma unroll
          for (int r = 0; r < kOutputsOfWarp; ++r)
            sum[t][r] = fmaf(to_float(w[step][r].at[i]), to_float(x.at[i]), sum[t][r]);
      }
    }
    k += kSteps * 32 * kN;
    if (k - lane * kN >= call.in) break;
    load(k);
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t)
#pragma unroll
    for (int r = 0; r < kOutputsOfWarp; ++r) {
      const float total = reduce_warp<Sum>(sum[t][r]);
      if (lane == 0 && t < call.tokens && first + r < call.out_features)
        call.out[t * call.out_token + head * call.out_head + first + r] = from_float<T>(total);
    }
}

constexpr int kColumnsOfBlock = 64, kSlices = kPackThreads / kColumnsOfBlock, kRowsAhead = 8;

// x W: a thread has eight outputs of a head, side by side in every row; the rows are divided over four slices of a
// block.
template <class T, int kTokens>
__global__ void __launch_bounds__(kPackThreads) packs_of_inputs(const PackedHeads<T> call) {
  extern __shared__ float inputs[];  // [kTokens][in]
  __shared__ float parts[kSlices][kColumnsOfBlock * kN];
  const int column = threadIdx.x % kColumnsOfBlock, slice = threadIdx.x / kColumnsOfBlock, head = blockIdx.y;
  const int first = (static_cast<int>(blockIdx.x) * kColumnsOfBlock + column) * kN;
  const bool exists = first < call.out_features;
  Pack<T, kN> w[kRowsAhead];
  auto load = [&](int k) {
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      const int row = k + i * kSlices;
      w[i] = load_weights(call.row(head, row, call.out_features) + first, exists && row < call.in);
    }
  };
  int k = slice;
  load(k);
  let_next_start();
  wait_for_previous();
  for (int i = threadIdx.x; i < kTokens * call.in; i += kPackThreads) {
    const int t = i / call.in;
    inputs[i] = t < call.tokens ? to_float(call.x[t * call.x_token + head * call.x_head + i % call.in]) : 0.0f;
  }
  __syncthreads();
  float sum[kTokens][kN] = {};
  while (true) {
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      const int row = k + i * kSlices;
      if (row >= call.in) break;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const float x = inputs[t * call.in + row];
#pragma unroll
        for (int j = 0; j < kN; ++j) sum[t][j] = fmaf(to_float(w[i].at[j]), x, sum[t][j]);
      }
    }
    k += kRowsAhead * kSlices;
    if (k >= call.in) break;
    load(k);
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t >= call.tokens) break;
    __syncthreads();  // before the parts of the last token are overwritten
#pragma unroll
    for (int j = 0; j < kN; ++j) parts[slice][column * kN + j] = sum[t][j];
    __syncthreads();
    for (int i = threadIdx.x; i < kColumnsOfBlock * kN; i += kPackThreads) {
      const int n = static_cast<int>(blockIdx.x) * kColumnsOfBlock * kN + i;
      if (n >= call.out_features) break;
      float total = 0;
#pragma unroll
      for (int s = 0; s < kSlices; ++s) total += parts[s][i];
      call.out[t * call.out_token + head * call.out_head + n] = from_float<T>(total);
    }
  }
}

class PerHeadLinearPacks final : public PerHeadLinear {
 public:
  using PerHeadLinear::PerHeadLinear;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (args[0]->size(0) > kPackTokens) return "it takes at most 8 tokens";
    if (init_.in_features > kMostPackInputs) return "heads may have 1024 inputs at most";
    return refuse_packed_heads(init_, args, has_param(0) ? weight().data() : nullptr);
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.size(0) == 0) return;
    if (x.dtype() == DType::kBF16)
      run<__nv_bfloat16>(x, out, ctx.stream);
    else
      run<__half>(x, out, ctx.stream);
  }

 private:
  template <class T>
  void run(const View& x, const View& out, void* stream) const {
    const PackedHeads<T> call{.weight = static_cast<const T*>(weight().data()),
                              .x = static_cast<const T*>(x.data()),
                              .out = static_cast<T*>(out.data()),
                              .x_token = x.stride(0),
                              .x_head = x.stride(1),
                              .out_token = out.stride(0),
                              .out_head = out.stride(1),
                              .tokens = static_cast<int>(x.size(0)),
                              .in = static_cast<int>(init_.in_features),
                              .out_features = static_cast<int>(init_.out_features),
                              .rows_per_head = static_cast<int>(init_.rows_per_head),
                              .first_row = static_cast<int>(init_.first_row)};
    const bool one = call.tokens == 1;
    const auto heads = static_cast<unsigned>(init_.num_heads);
    if (init_.transposed) {
      launch("per_head_linear", one ? packs_of_inputs<T, 1> : packs_of_inputs<T, kPackTokens>,
             dim3(blocks_for(call.out_features, kColumnsOfBlock * kN), heads), kPackThreads,
             static_cast<size_t>((one ? 1 : kPackTokens) * call.in) * sizeof(float), stream, call);
    } else {
      launch("per_head_linear", one ? packs_of_outputs<T, 1> : packs_of_outputs<T, kPackTokens>,
             dim3(blocks_for(call.out_features, kPackWarps * kOutputsOfWarp), heads), kPackThreads, 0, stream, call);
    }
  }
};

FK_IMPLEMENTATION(PerHeadLinear, PerHeadLinearPacks, "cuda.packs", DeviceKind::kCuda, 300, nullptr);

}  // namespace

std::string_view per_head_packs_refusal(const PerHeadLinear::Init& init, const View& weight, const View& x,
                                        const View& out) {
  PerHeadLinearPacks packs(init);
  packs.bind({weight});
  const OptView args[] = {x, out};
  return packs.refuse(args);
}

void per_head_packs(Context& ctx, const PerHeadLinear::Init& init, const View& weight, const View& x, const View& out) {
  PerHeadLinearPacks packs(init);
  packs.bind({weight});
  packs.forward(ctx, x, out);
}

}  // namespace fk::cuda
