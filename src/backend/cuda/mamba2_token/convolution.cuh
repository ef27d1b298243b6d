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

  // This block has `rows` rows of the product from `first` on; channel 0 is row `first_channel`. Shifts the window.
  __device__ __forceinline__ void prepare(ConvolutionMemory& memory, int first, int rows, int first_channel) const {
    const int i = static_cast<int>(threadIdx.x), channel = first + i - first_channel;
    if (i >= rows || channel < 0 || channel >= channels) return;
    const T* weights = static_cast<const T*>(weight) + static_cast<int64_t>(channel) * width;
    T seen[kMostConvolutionWidth] = {};
    float of_token[kMostConvolutionWidth] = {};
#pragma unroll
    for (int k = 0; k < kMostConvolutionWidth; ++k) {
      if (k < width) of_token[k] = to_float(weights[k]);
      if (window != nullptr && k + 1 < width) seen[k] = window[static_cast<int64_t>(k) * channels + channel];
    }
    float sum = bias != nullptr ? to_float(static_cast<const T*>(bias)[channel]) : 0.0f, last = 0;
#pragma unroll
    for (int k = 0; k < kMostConvolutionWidth; ++k) {
      if (k + 1 < width) sum = fmaf(of_token[k], to_float(seen[k]), sum);
      if (k + 1 == width) last = of_token[k];
      if (k > 0 && k + 1 < width && window != nullptr)
        window[static_cast<int64_t>(k - 1) * channels + channel] = seen[k];
    }
    memory.before[i] = sum;
    memory.last[i] = last;
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
