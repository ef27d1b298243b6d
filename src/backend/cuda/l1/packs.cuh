// Rows read and written in packs of 16 bytes, or element by element if an address or a row's length does not allow it.
#pragma once

#include <cstring>
#include <type_traits>

#include "backend/cuda/device/element.cuh"
#include "core/tensor.h"

namespace fk::cuda {

template <class T, int N>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  Pack<T, N> pack;
  if constexpr (sizeof(pack) == 16) {
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    memcpy(&pack, &raw, 16);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = from[i];
  }
  return pack;
}

template <class T, int N>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == 16) {
    uint4 raw;
    memcpy(&raw, &pack, 16);
    *reinterpret_cast<uint4*>(to) = raw;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = pack.at[i];
  }
}

// True when the rows of a view, outermost dimension first, can be walked in packs from their beginning.
inline bool rows_fit_packs(const View& v) {
  bool fit = v.size(-1) * static_cast<int64_t>(dtype_size(v.dtype())) % 16 == 0;
  for (int d = 0; d + 1 < v.rank(); ++d) fit = fit && packs_fit(v.data(), v.stride(d), dtype_size(v.dtype()));
  return fit && packs_fit(v.data(), 0, dtype_size(v.dtype()));
}
inline bool rows_fit_packs(const OptView& v) { return !v || rows_fit_packs(*v); }

// Calls f(Type<T>{}, integral_constant<int, N>{}): N elements of T at a time.
template <class F>
void with_packs(DType dtype, bool packs, F&& f) {
  with_float_type(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (packs)
      f(type, std::integral_constant<int, kPackElements<T>>{});
    else
      f(type, std::integral_constant<int, 1>{});
  });
}

}  // namespace fk::cuda
