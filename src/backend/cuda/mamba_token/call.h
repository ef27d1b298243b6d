// MambaTokenCall: the arguments of the kernel that computes one token of Mamba, as plain numbers and addresses.
#pragma once

#include <cstdint>

#include "backend/cuda/decode_megakernel/call.h"
#include "backend/cuda/device/term_scale.h"

namespace fk::cuda {

inline constexpr int kMostMambaLayers = 96;
inline constexpr int kMambaStates = 16;  // of a channel

struct MambaTokenLayer {
  const void *norm, *in_proj, *in_bias, *conv_weight, *conv_bias, *x_proj, *dt_proj, *A_log, *skip, *dt_bias, *dt_norm,
      *b_norm, *c_norm, *out_proj, *out_bias;  // null where a model has none: biases but dt_bias, the inner norms
};

struct MambaTokenStates {
  void* window;  // [slots, width - 1, channels]
  float* scan;   // [slots, channels, 16]
};

// Memory that is kept from launch to launch, zero before the first.
struct MambaTokenMemory {
  unsigned* arrivals;     // of the barrier of all blocks; zero before and after every launch
  uint32_t* tag;          // the last one that was used (tagged.cuh)
  uint64_t *gated, *out;  // tagged: the scan's results, [channels / 2], and those of a layer, [hidden / 2]
  // Sums of parameters: two sets (TermPlaces), which layers use in turn. Zero before and after every launch.
  unsigned long long* sums;
};

struct MambaTokenCall {
  const MambaTokenLayer* of_layers;  // in device memory
  const void* embedding;             // [vocabulary, hidden]
  const void* final_norm;
  const void* head;
  MambaTokenStates states[kMostMambaLayers];
  int64_t state_slots;  // there are so many
  const int64_t* id;
  const int32_t* state_slot;  // of the sequence
  MambaTokenMemory memory;
  float* logits;

  // half_shape: of the two halves of in_proj. The launch divides them, this one by channels (channel_share.h).
  DividedShape half_shape, out_shape, head_shape;
  int layers, hidden, vocabulary;
  int width, channels, rank;
  bool inner_norms;
  float eps, inner_eps;
  int ring_slots, scratch_bytes;  // of shared memory: the launch sets them
  unsigned dawdle = 0;            // seed of the random delays, if enabled (handover.cuh)

  constexpr int parameters() const { return rank + 2 * kMambaStates; }
  constexpr TermPlaces sums() const { return {parameters()}; }
  constexpr int sums_of_layer() const { return sums().all(); }
};

}  // namespace fk::cuda
