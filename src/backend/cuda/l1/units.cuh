// Copies are independent of the dtype: they use the widest unit that divides all addresses and lengths.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/device/element.cuh"
#include "core/tensor.h"

namespace fk::cuda {

// The low bits of every address and length, in bytes, that a copy steps by.
class UnitBits {
 public:
  void add_bytes(int64_t bytes) { bits_ |= static_cast<uint64_t>(bytes); }
  // Address, row length and every stride of a view.
  void add(const View& v) {
    auto size = static_cast<int64_t>(dtype_size(v.dtype()));
    bits_ |= reinterpret_cast<uintptr_t>(v.data());
    add_bytes(v.size(-1) * size);
    for (int d = 0; d + 1 < v.rank(); ++d) add_bytes(v.stride(d) * size);
  }

  // Calls f(Type<U>{}) with the widest unit.
  template <class F>
  void with_unit(F&& f) const {
    if (bits_ % 16 == 0)
      f(Type<uint4>{});
    else if (bits_ % 8 == 0)
      f(Type<uint2>{});
    else if (bits_ % 4 == 0)
      f(Type<uint32_t>{});
    else if (bits_ % 2 == 0)
      f(Type<uint16_t>{});
    else
      f(Type<uint8_t>{});
  }

 private:
  uint64_t bits_ = 0;
};

}  // namespace fk::cuda
