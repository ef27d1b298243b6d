// A call of ops/l1/linear_recurrence.h as kernels see it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/cuda/device/element.cuh"
#include "ops/l1/linear_recurrence.h"

namespace fk::cuda {

// Where a and b come from: nowhere, from k and beta, or from tensors of their own.
enum class Delta : uint8_t { kNone, kBeta, kVectors };

// Rows (t, head) of [T, H, n]; distances in elements.
template <class T>
struct HeadRows {
  const T* at = nullptr;
  int64_t token = 0, head = 0;
  int heads = 0;

  __device__ __forceinline__ const T* row(int64_t t, int h, int state_heads) const {
    return at + t * token + static_cast<int64_t>(h) * heads / state_heads * head;
  }
};

template <class T>
struct DeviceRecurrence {
  HeadRows<T> q, k, v, a, b;
  HeadRows<float> g, beta;  // of rank 2 too: then `head` is 1
  float* state = nullptr;
  const int32_t* starts = nullptr;
  const int32_t* slots = nullptr;
  T* out = nullptr;
  int64_t out_token = 0, out_head = 0;
  int sequences = 0, H = 0, K = 0, V = 0, first_head = 0;
  float scale = 1;
  bool decay_per_element = false;

  // The logarithm of the decay of channel i.
  __device__ __forceinline__ float log_decay(int64_t t, int h, int i) const {
    if (g.at == nullptr) return log1pf(-exp2f(-5.0f - static_cast<float>(first_head + h)));
    const float* row = g.row(t, h, H);
    return decay_per_element ? row[i] : row[0];
  }
  __device__ __forceinline__ float beta_of(int64_t t, int h) const { return *beta.row(t, h, H); }
  __device__ __forceinline__ int64_t begin(int s) const { return starts != nullptr ? starts[s] : s; }
  __device__ __forceinline__ int64_t end(int s) const { return starts != nullptr ? starts[s + 1] : s + 1; }
};

template <class T>
HeadRows<T> head_rows(const View& v) {
  return {static_cast<const T*>(v.data()), v.stride(0), v.rank() == 3 ? v.stride(1) : 1, static_cast<int>(v.size(1))};
}

template <class T>
DeviceRecurrence<T> on_device(const LinearRecurrence& c) {
  DeviceRecurrence<T> d;
  d.q = head_rows<T>(c.q);
  d.k = head_rows<T>(c.k);
  d.v = head_rows<T>(c.v);
  if (c.a) d.a = head_rows<T>(*c.a);
  if (c.b) d.b = head_rows<T>(*c.b);
  if (c.g) d.g = head_rows<float>(*c.g);
  if (c.beta) d.beta = head_rows<float>(*c.beta);
  d.state = static_cast<float*>(c.state.data());
  if (c.cu_seqlens) d.starts = static_cast<const int32_t*>(c.cu_seqlens->data());
  d.slots = static_cast<const int32_t*>(c.state_slots.data());
  d.out = static_cast<T*>(c.out.data());
  d.out_token = c.out.stride(0);
  d.out_head = c.out.stride(1);
  d.sequences = static_cast<int>(c.sequences());
  d.H = static_cast<int>(c.heads());
  d.K = static_cast<int>(c.state.size(2));
  d.V = static_cast<int>(c.state.size(3));
  d.first_head = static_cast<int>(c.first_head);
  d.scale = static_cast<float>(c.scale);
  d.decay_per_element = c.g && c.g->rank() == 3;
  return d;
}

inline Delta delta_of(const LinearRecurrence& c) {
  return c.a ? Delta::kVectors : c.beta ? Delta::kBeta : Delta::kNone;
}

// Calls f(integral_constant<Delta, ...>).
template <class F>
void with_delta(Delta delta, F&& f) {
  if (delta == Delta::kNone)
    f(std::integral_constant<Delta, Delta::kNone>{});
  else if (delta == Delta::kBeta)
    f(std::integral_constant<Delta, Delta::kBeta>{});
  else
    f(std::integral_constant<Delta, Delta::kVectors>{});
}

}  // namespace fk::cuda
