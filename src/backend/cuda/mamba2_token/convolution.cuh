// The causal convolution of one token at the end of the product that gives its input: a block convolves the channels it
// has the rows of. Everything but the new token is prepared while the block waits for others.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/decode_megakernel/block.cuh"
#include "backend/cuda/device/element.cuh"

namespace fk::cuda {

inline constexpr int kMostConvolutionWidth = 4;             // tokens
inline constexpr int kMostConvolutionRows = kTokenThreads;  // of a block

struct ConvolutionMemory {
  float before[kMostConvolutionRows];  // the sum over the tokens before this one, with the bias
  float last[kMostConvolutionRows];    // the weight of this one
};

struct Convolution {
  using T = __nv_bfloat16;

  T* window;                  // [width - 1, channels] of this sequence, or null
  const void *weight, *bias;  // [channels, width], [channels] or null
  int channels, width;

  // What is known of a channel before its new input.
  struct Loaded {
    T seen[kMostConvolutionWidth] = {};
    float of_token[kMostConvolutionWidth] = {}, bias = 0;
    int channel = -1;  // negative: this thread has none
  };

  // This block has `rows` rows of the product from `first` on; channel 0 is row `first_channel`.
  __device__ __forceinline__ Loaded load(int first, int rows, int first_channel) const {
    Loaded l;
    const int i = static_cast<int>(threadIdx.x), channel = first + i - first_channel;
    if (i >= rows || channel < 0 || channel >= channels) return l;
    l.channel = channel;
    const T* weights = static_cast<const T*>(weight) + static_cast<int64_t>(channel) * width;
#pragma unroll
    for (int k = 0; k < kMostConvolutionWidth; ++k) {
      if (k < width) l.of_token[k] = to_float(weights[k]);
      if (window != nullptr && k + 1 < width) l.seen[k] = window[static_cast<int64_t>(k) * channels + channel];
    }
    if (bias != nullptr) l.bias = to_float(static_cast<const T*>(bias)[channel]);
    return l;
  }

  // Shifts the window, and keeps what finish() needs.
  __device__ __forceinline__ void keep(ConvolutionMemory& memory, const Loaded& l) const {
    if (l.channel < 0) return;
    float sum = l.bias, last = 0;
#pragma unroll
    for (int k = 0; k < kMostConvolutionWidth; ++k) {
      if (k + 1 < width) sum = fmaf(l.of_token[k], to_float(l.seen[k]), sum);
      if (k + 1 == width) last = l.of_token[k];
      if (k > 0 && k + 1 < width && window != nullptr)
        window[static_cast<int64_t>(k - 1) * channels + l.channel] = l.seen[k];
    }
    memory.before[threadIdx.x] = sum;
    memory.last[threadIdx.x] = last;
  }

  // The result for a channel whose new input is x; row: of this block.
  __device__ __forceinline__ float finish(const ConvolutionMemory& memory, int row, int channel, float x) const {
    const T rounded = from_float<T>(x);
    if (window != nullptr && width > 1) window[static_cast<int64_t>(width - 2) * channels + channel] = rounded;
    const float sum = fmaf(memory.last[row], to_float(rounded), memory.before[row]);
    return sum / (1.0f + expf(-sum));
  }
};

}  // namespace fk::cuda
