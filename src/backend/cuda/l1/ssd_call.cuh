// One call of SSDScan, as its kernels get it.
#pragma once

#include "backend/cuda/device/element.cuh"
#include "core/tensor.h"
#include "ops/l1/ssd_scan.h"

namespace fk::cuda {

template <class T>
struct SsdCall {
  const T *x, *dt, *B, *C;
  T* out;
  int64_t x_stride, dt_stride, B_stride, C_stride, out_stride, state_stride;
  float* state;  // [slots, H, P, N]
  const int32_t* slots;
  const int32_t* offsets;  // [S + 1], or null: sequence s has token s
  const T *A_log, *skip, *bias;
  int64_t num_slots;
  int heads, rows, states, heads_of_group;  // H, P, N, H / G

  // The state of a head, or null if the sequence has none.
  __device__ float* state_of(int s, int head) const {
    const int64_t slot = slots[s];
    return slot >= 0 && slot < num_slots ? state + slot * state_stride + static_cast<int64_t>(head) * rows * states
                                         : nullptr;
  }
  __device__ int group_of(int head) const { return head / heads_of_group * states; }
  __device__ float step_of(int64_t t, int head) const {
    const float v = to_float(dt[t * dt_stride + head]) + to_float(bias[head]);
    return fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v)));
  }
};

struct SsdViews {
  View x, dt, B, C, ssm_state, state_slots;
  OptView cu_seqlens;
  View out, A_log, skip, bias;
};

template <class T>
SsdCall<T> ssd_call(const SSDScan::Init& init, const SsdViews& views) {
  auto at = [](const View& v) { return static_cast<const T*>(v.data()); };
  SsdCall<T> call{};
  call.x = at(views.x);
  call.dt = at(views.dt);
  call.B = at(views.B);
  call.C = at(views.C);
  call.out = static_cast<T*>(views.out.data());
  call.x_stride = views.x.stride(0);
  call.dt_stride = views.dt.stride(0);
  call.B_stride = views.B.stride(0);
  call.C_stride = views.C.stride(0);
  call.out_stride = views.out.stride(0);
  call.state_stride = views.ssm_state.stride(0);
  call.state = views.ssm_state.ptr<float>();
  call.slots = views.state_slots.ptr<int32_t>();
  call.offsets = views.cu_seqlens ? views.cu_seqlens->ptr<int32_t>() : nullptr;
  call.A_log = at(views.A_log);
  call.skip = at(views.skip);
  call.bias = at(views.bias);
  call.num_slots = views.ssm_state.size(0);
  call.heads = static_cast<int>(init.num_heads);
  call.rows = static_cast<int>(init.head_dim);
  call.states = static_cast<int>(init.state_size);
  call.heads_of_group = static_cast<int>(init.num_heads / init.n_groups);
  return call;
}

}  // namespace fk::cuda
