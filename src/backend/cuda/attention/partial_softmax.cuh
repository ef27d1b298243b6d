// Partial softmax of a head over some of its keys, its combination with another one, and the final result.
#pragma once

#include "backend/cuda/attention/keys.cuh"
#include "backend/cuda/device/element.cuh"

namespace fk::cuda {

// Largest score (as an exponent of two) and sum of weights; the weighted values are stored separately.
struct Running {
  float largest;
  float sum;
};

// The combination of a and b; scales for the values of each.
__device__ __forceinline__ Running join(Running a, Running b, float& scale_a, float& scale_b) {
  const float largest = fmaxf(a.largest, b.largest);
  const float safe = largest == -INFINITY ? 0.0f : largest;
  scale_a = exp2f(a.largest - safe);
  scale_b = exp2f(b.largest - safe);
  return {largest, a.sum * scale_a + b.sum * scale_b};
}

// Writes element i of the output of a query head; `value` is its weighted sum over all keys.
template <class T>
__device__ __forceinline__ void store_result(const AttentionCall& call, int sequence, int head, int i, float value,
                                             const Running& all) {
  const float total = all.sum + sink_weight(call, head, all.largest);
  T* out = static_cast<T*>(call.out) + sequence * call.out_strides.token + head * call.out_strides.head + i;
  float result = total == 0 ? 0.0f : value / total;
  if (call.gate != nullptr) {  // rounded, as sigmoid_mul reads it
    const float gate = to_float(
        static_cast<const T*>(call.gate)[sequence * call.gate_strides.token + head * call.gate_strides.head + i]);
    result = to_float(from_float<T>(result)) / (1.0f + expf(-gate));
  }
  *out = from_float<T>(result);
}

}  // namespace fk::cuda
