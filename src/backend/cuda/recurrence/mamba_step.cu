// A block of the first kernel has 128 channels: it convolves them and multiplies them by its columns of x_proj, so that
// every block has a part of each sum. Blocks of the second add up the parts, multiply by their rows of dt_proj and
// scan: 4 threads have the 16 states of a channel. Both load their weights before they wait for the kernel before them.
#include "backend/cuda/recurrence/mamba_step.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/recurrence/sequence_rows.cuh"

namespace fk::cuda {
namespace {

constexpr int kConvolveThreads = 512, kConvolveChannels = 128;  // of a block of the first kernel
constexpr int kStepThreads = 256, kStepChannels = 64;           // of the second
constexpr int kWindow = 4;                                      // tokens a channel is convolved over, at most
constexpr int kStates = 16;                                     // of a channel
constexpr int kStatesOfThread = 4;
constexpr int kN = 8;                 // elements of a pack
constexpr int kMostParameters = 384;  // R + 2 N
constexpr int kMostRank = 256;
constexpr float kLog2Of = 1.44269504088896341f;  // e

template <class T>
struct ConvolveCall {
  const T* x;    // [T, I]
  T* u;          // [T, I]
  float* parts;  // [T, blocks, parameters]
  T* window;     // [slots, W - 1, I]
  const T* weight;
  const T* bias;  // or null
  const T* x_proj;
  int64_t x_stride, u_stride, window_stride, slots;
  int channels, width, parameters;
  SequenceRows sequences;
};

// Parameters are rows of x_proj: sixteen threads have the 128 columns of one.
template <class T, int kPasses>
__global__ void __launch_bounds__(kConvolveThreads) convolve_and_project(const ConvolveCall<T> call) {
  constexpr int kThreadsOfRow = kConvolveChannels / kN, kRowsAtOnce = kConvolveThreads / kThreadsOfRow;
  __shared__ alignas(16) float u[kConvolveChannels];
  const int thread = threadIdx.x, part = thread % kThreadsOfRow, row = thread / kThreadsOfRow;
  const int first = static_cast<int>(blockIdx.x) * kConvolveChannels, channel = first + thread,
            column = first + part * kN;
  Pack<T, kN> w[kPasses];
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {
    const int r = row + i * kRowsAtOnce;
    w[i] = {};
    if (r < call.parameters && column < call.channels)
      w[i] = load_pack<T, kN>(call.x_proj + static_cast<int64_t>(r) * call.channels + column);
  }
  const bool convolves = thread < kConvolveChannels && channel < call.channels;
  float weight[kWindow] = {}, bias = 0;  // of the oldest token first; shorter windows begin with zeros
  if (convolves) {
#pragma unroll
    for (int k = 0; k < kWindow; ++k) {
      const int from = k - (kWindow - call.width);
      if (from >= 0) weight[k] = to_float(call.weight[static_cast<int64_t>(channel) * call.width + from]);
    }
    if (call.bias != nullptr) bias = to_float(call.bias[channel]);
  }
  // No kernel writes the slots.
  const SequenceRow sequence = call.sequences.of(static_cast<int>(blockIdx.y), call.slots);
  let_next_start();
  wait_for_previous();
  T* window = call.window + sequence.slot * call.window_stride + channel;
  float seen[kWindow] = {};  // the tokens before this one, then this one
  if (convolves && sequence.slot >= 0) {
#pragma unroll
    for (int k = 0; k + 1 < kWindow; ++k) {
      const int from = k - (kWindow - call.width);
      if (from >= 0) seen[k] = to_float(window[static_cast<int64_t>(from) * call.channels]);
    }
  }
  for (int t = sequence.first; t < sequence.last; ++t) {
    if (thread < kConvolveChannels) {
      float sum = bias;
      if (convolves) {
        seen[kWindow - 1] = to_float(call.x[t * call.x_stride + channel]);
#pragma unroll
        for (int k = 0; k < kWindow; ++k) sum = fmaf(weight[k], seen[k], sum);
#pragma unroll
        for (int k = 0; k + 1 < kWindow; ++k) seen[k] = seen[k + 1];
      }
      const T rounded = from_float<T>(sum / (1.0f + expf(-sum)));
      if (convolves) call.u[t * call.u_stride + channel] = rounded;
      u[thread] = convolves ? to_float(rounded) : 0.0f;
    }
    __syncthreads();
    float own[kN];
#pragma unroll
    for (int i = 0; i < kN; ++i) own[i] = u[part * kN + i];
    float* parts = call.parts + (static_cast<int64_t>(t) * gridDim.x + blockIdx.x) * call.parameters;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < kN; ++k) sum = fmaf(to_float(w[i].at[k]), own[k], sum);
#pragma unroll
      for (int step = 1; step < kThreadsOfRow; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
      const int r = row + i * kRowsAtOnce;
      if (part == 0 && r < call.parameters) parts[r] = sum;
    }
    __syncthreads();  // before the next token overwrites u
  }
  if (convolves && sequence.slot >= 0 && sequence.first < sequence.last) {
#pragma unroll
    for (int k = 0; k + 1 < kWindow; ++k) {
      const int to = k - (kWindow - call.width);
      if (to >= 0) window[static_cast<int64_t>(to) * call.channels] = from_float<T>(seen[k]);
    }
  }
}

template <class T>
struct ScanCall {
  const float* parts;  // [T, blocks, parameters]
  const T *u, *gate;   // [T, I]
  T* out;
  float* state;  // [slots, I, 16]
  const T *dt_proj, *A_log, *skip, *dt_bias;
  const T* norm_weight[3];  // of the time step, B and C, or null
  int64_t u_stride, gate_stride, out_stride, state_stride, slots;
  int channels, rank, parameters, blocks;
  bool norms;
  float eps;
  SequenceRows sequences;
};

__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

template <class T, int kPacks>
__global__ void __launch_bounds__(kStepThreads) step_and_scan(const ScanCall<T> call) {
  __shared__ alignas(16) float sums[kStepThreads * 4];            // parts of the parameters
  __shared__ alignas(16) float parameters[kMostParameters + kN];  // the time step, B, C
  const int thread = threadIdx.x, q = thread % 4;
  const int channel = static_cast<int>(blockIdx.x) * kStepChannels + thread / 4;
  const bool exists = channel < call.channels;
  Pack<T, kN> w[kPacks];
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int k = (i * 4 + q) * kN;
    w[i] = {};
    if (exists && k < call.rank) w[i] = load_pack<T, kN>(call.dt_proj + static_cast<int64_t>(channel) * call.rank + k);
  }
  float rate[kStatesOfThread] = {}, skip = 0, bias = 0;
  if (exists) {
#pragma unroll
    for (int i = 0; i < kStatesOfThread; ++i)
      rate[i] =
          -expf(to_float(call.A_log[static_cast<int64_t>(channel) * kStates + q * kStatesOfThread + i])) * kLog2Of;
    skip = to_float(call.skip[channel]);
    bias = to_float(call.dt_bias[channel]);
  }
  // No kernel writes the slots.
  const SequenceRow sequence = call.sequences.of(static_cast<int>(blockIdx.y), call.slots);
  let_next_start();
  wait_for_previous();
  auto* state = reinterpret_cast<float4*>(call.state + sequence.slot * call.state_stride +
                                          static_cast<int64_t>(channel) * kStates + q * kStatesOfThread);
  float4 h = make_float4(0, 0, 0, 0);
  if (exists && sequence.slot >= 0) h = *state;
  // Threads add up different parts: `quads` columns of four parameters, `groups` of them side by side.
  const int quads = call.parameters / 4, groups = kStepThreads / quads;
  for (int t = sequence.first; t < sequence.last; ++t) {
    float x = 0, gate = 0;
    if (exists) {
      x = to_float(call.u[t * call.u_stride + channel]);
      gate = to_float(call.gate[t * call.gate_stride + channel]);
    }
    if (thread < quads * groups) {
      const int column = thread % quads, group = thread / quads;
      const auto* parts =
          reinterpret_cast<const float4*>(call.parts + static_cast<int64_t>(t) * call.blocks * call.parameters) +
          column;
      float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
      for (int b = group; b < call.blocks; b += groups) {
        const float4 v = parts[static_cast<int64_t>(b) * quads];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
      }
      reinterpret_cast<float4*>(sums)[thread] = sum;
    }
    __syncthreads();
    for (int i = thread; i < call.parameters; i += kStepThreads) {
      float sum = 0;
      for (int group = 0; group < groups; ++group) sum += sums[group * call.parameters + i];
      parameters[i] = to_float(from_float<T>(sum));  // x_proj's result has the dtype of the model
    }
    __syncthreads();
    if (call.norms) {
      const int warp = thread / 32, lane = thread % 32;
      if (warp < 3) {
        const int width = warp == 0 ? call.rank : kStates;
        float* row = parameters + (warp == 0 ? 0 : call.rank + (warp - 1) * kStates);
        float squares = 0;
        for (int i = lane; i < width; i += 32) squares = fmaf(row[i], row[i], squares);
        const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(width) + call.eps);
        const T* weight = call.norm_weight[warp];
        for (int i = lane; i < width; i += 32)
          row[i] = to_float(from_float<T>(row[i] * scale * (weight != nullptr ? to_float(weight[i]) : 1.0f)));
      }
      __syncthreads();
    }
    float dt = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int k = (i * 4 + q) * kN;
      if (k >= call.rank) continue;
#pragma unroll
      for (int j = 0; j < kN; ++j) dt = fmaf(to_float(w[i].at[j]), parameters[k + j], dt);
    }
    dt += __shfl_xor_sync(kAllLanes, dt, 1);
    dt += __shfl_xor_sync(kAllLanes, dt, 2);
    dt = softplus(to_float(from_float<T>(dt)) + bias);
    const float* b = parameters + call.rank + q * kStatesOfThread;
    const float* c = b + kStates;
    const float input = dt * x;
    h.x = fmaf(exp2f(dt * rate[0]), h.x, input * b[0]);
    h.y = fmaf(exp2f(dt * rate[1]), h.y, input * b[1]);
    h.z = fmaf(exp2f(dt * rate[2]), h.z, input * b[2]);
    h.w = fmaf(exp2f(dt * rate[3]), h.w, input * b[3]);
    float y = fmaf(h.x, c[0], fmaf(h.y, c[1], fmaf(h.z, c[2], h.w * c[3])));
    y += __shfl_xor_sync(kAllLanes, y, 1);
    y += __shfl_xor_sync(kAllLanes, y, 2);
    if (exists && q == 0)
      call.out[t * call.out_stride + channel] = from_float<T>(fmaf(skip, x, y) * (gate / (1.0f + expf(-gate))));
    if (t + 1 < sequence.last) __syncthreads();  // before the next token overwrites the parameters
  }
  if (exists && sequence.slot >= 0 && sequence.first < sequence.last) *state = h;
}

template <class T>
void run_step(const MambaStep& step, Context& ctx) {
  auto at = [](const View& v) { return static_cast<const T*>(v.data()); };
  auto maybe = [](const OptView& v) { return v ? static_cast<const T*>(v->data()) : nullptr; };
  const AttentionMetadata& batch = *ctx.attention;
  const SequenceRows sequences(batch);
  const int channels = static_cast<int>(step.x.size(1)), parameters = static_cast<int>(step.x_proj.size(0));
  const unsigned blocks = blocks_for(channels, kConvolveChannels);
  View u = ctx.arena.make({step.x.shape(), step.x.dtype()});
  View parts = ctx.arena.make({{step.x.size(0), static_cast<int64_t>(blocks), parameters}, DType::kF32});
  const ConvolveCall<T> convolve{.x = at(step.x),
                                 .u = static_cast<T*>(u.data()),
                                 .parts = parts.ptr<float>(),
                                 .window = static_cast<T*>(step.conv_state.data()),
                                 .weight = at(step.conv_weight),
                                 .bias = maybe(step.conv_bias),
                                 .x_proj = at(step.x_proj),
                                 .x_stride = step.x.stride(0),
                                 .u_stride = u.stride(0),
                                 .window_stride = step.conv_state.stride(0),
                                 .slots = step.conv_state.size(0),
                                 .channels = channels,
                                 .width = static_cast<int>(step.conv_weight.size(-1)),
                                 .parameters = parameters,
                                 .sequences = sequences};
  launch("mamba_convolve", parameters <= 192 ? convolve_and_project<T, 6> : convolve_and_project<T, 12>,
         dim3(blocks, SequenceRows::count(batch)), kConvolveThreads, 0, ctx.stream, convolve);
  const ScanCall<T> scan{.parts = parts.ptr<float>(),
                         .u = at(u),
                         .gate = at(step.gate),
                         .out = static_cast<T*>(step.out.data()),
                         .state = step.ssm_state.ptr<float>(),
                         .dt_proj = at(step.dt_proj),
                         .A_log = at(step.A_log),
                         .skip = at(step.skip),
                         .dt_bias = at(step.dt_bias),
                         .norm_weight = {maybe(step.dt_norm), maybe(step.b_norm), maybe(step.c_norm)},
                         .u_stride = u.stride(0),
                         .gate_stride = step.gate.stride(0),
                         .out_stride = step.out.stride(0),
                         .state_stride = step.ssm_state.stride(0),
                         .slots = step.ssm_state.size(0),
                         .channels = channels,
                         .rank = static_cast<int>(step.dt_proj.size(1)),
                         .parameters = parameters,
                         .blocks = static_cast<int>(blocks),
                         .norms = step.norms,
                         .eps = static_cast<float>(step.norm_eps),
                         .sequences = sequences};
  launch("mamba_scan", scan.rank <= 160 ? step_and_scan<T, 5> : step_and_scan<T, 8>,
         dim3(blocks_for(channels, kStepChannels), SequenceRows::count(batch)), kStepThreads, 0, ctx.stream, scan);
}

}  // namespace

std::string_view refuse_mamba_step(const MambaMixerInit& init) {
  if (init.dtype != DType::kBF16 && init.dtype != DType::kF16) return "it computes in bf16 and f16";
  if (init.state_size != kStates) return "channels must have 16 states";
  if (init.conv_kernel > kWindow) return "the convolution may reach over 4 tokens at most";
  if (init.intermediate_size % kN != 0 || init.time_step_rank % kN != 0) return "sizes must be multiples of 8";
  if (init.time_step_rank > kMostRank) return "time_step_rank may be 256 at most";
  return {};
}

void run_mamba_step(const MambaStep& step, Context& ctx) {
  if (step.x.dtype() == DType::kBF16)
    run_step<__nv_bfloat16>(step, ctx);
  else
    run_step<__half>(step, ctx);
}

}  // namespace fk::cuda
