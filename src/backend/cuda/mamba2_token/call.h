// Mamba2TokenCall: the arguments of the kernel that computes one token of Mamba 2, as plain numbers and addresses.
#pragma once

#include <cstdint>

#include "backend/cuda/decode_megakernel/call.h"

namespace fk::cuda {

inline constexpr int kMostMamba2Layers = 96;

struct Mamba2TokenLayer {
  const void *norm, *in_proj, *in_bias, *conv_weight, *conv_bias, *A_log, *skip, *dt_bias, *gated_norm, *out_proj,
      *out_bias;  // biases of products and of the convolution: null where a model has none
};

struct Mamba2TokenStates {
  void* window;  // [slots, width - 1, channels of the convolution]
  float* scan;   // [slots, heads, head_dim, states]
};

struct Mamba2TokenCall {
  const Mamba2TokenLayer* of_layers;  // in device memory
  const void* embedding;              // [vocabulary, hidden]
  const void* final_norm;
  const void* head;
  Mamba2TokenStates states[kMostMamba2Layers];
  int64_t state_slots;  // there are so many
  const int64_t* id;
  const int32_t* state_slot;  // of the sequence

  // Between the phases: vectors of the model's dtype, and two of f32.
  void* out;  // of the last layer
  void* residuals[2];
  void *gate, *mixed, *dt;  // what in_proj gives: [heads * head_dim], after the convolution, [heads]
  float *gated, *squares;   // [heads * head_dim], and the sum of squares of each head
  float* logits;
  unsigned* arrivals;  // of the barrier of all blocks; zero before and after every launch

  DividedShape in_shape, out_shape, head_shape;  // the launch divides them
  int layers, hidden, vocabulary;
  int width, heads, head_dim, num_states, groups;
  float eps, gated_eps;
  int ring_slots, scratch_bytes;  // of shared memory: the launch sets them
  unsigned dawdle = 0;            // seed of the random delays, if enabled (handover.cuh)

  constexpr int size() const { return heads * head_dim; }
  constexpr int conv_channels() const { return size() + 2 * groups * num_states; }
};

}  // namespace fk::cuda
