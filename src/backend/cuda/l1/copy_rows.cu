#include "backend/cuda/l1/copy_rows.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/units.cuh"

namespace fk::cuda {
namespace {

constexpr int kCopyRowsThreads = 256;
constexpr int kInFlight = 4;  // units that a thread has in flight
constexpr int64_t kPerBlock = kCopyRowsThreads * kInFlight;

struct Rows {
  const std::byte* from;
  int64_t from_pitch;  // bytes, as to_pitch
  int64_t from_rows;
  const int64_t* index;
  int64_t index_stride;
  std::byte* to;
  int64_t to_pitch;
  int64_t units;    // in a row
  unsigned pieces;  // blocks per row
};

template <class U>
__global__ void __launch_bounds__(kCopyRowsThreads) copy_units(const Rows rows) {
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / rows.pieces;
  const int64_t first = blockIdx.x % rows.pieces * kPerBlock + threadIdx.x;
  const int64_t source = rows.index != nullptr ? rows.index[row * rows.index_stride] : row;
  const bool known = source >= 0 && source < rows.from_rows;
  const U* from = reinterpret_cast<const U*>(rows.from + (known ? source : 0) * rows.from_pitch);
  U* to = reinterpret_cast<U*>(rows.to + row * rows.to_pitch);
  U units[kInFlight];
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    const int64_t i = first + j * kCopyRowsThreads;
    units[j] = known && i < rows.units ? from[i] : U{};
  }
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    const int64_t i = first + j * kCopyRowsThreads;
    if (i < rows.units) to[i] = units[j];
  }
}

}  // namespace

void copy_rows(const CopyRows& call, void* stream) {
  const View &from = call.from, &to = call.to;
  auto size = static_cast<int64_t>(dtype_size(to.dtype()));
  if (to.numel() == 0) return;
  UnitBits bits;
  bits.add(from);
  bits.add(to);
  bits.with_unit([&](auto type) {
    using U = typename decltype(type)::type;
    Rows rows{.from = static_cast<const std::byte*>(from.data()),
              .from_pitch = from.stride(0) * size,
              .from_rows = from.size(0),
              .index = call.index ? call.index->ptr<int64_t>() : nullptr,
              .index_stride = call.index ? call.index->stride(0) : 0,
              .to = static_cast<std::byte*>(to.data()),
              .to_pitch = to.stride(0) * size,
              .units = to.size(1) * size / static_cast<int64_t>(sizeof(U)),
              .pieces = 0};
    rows.pieces = blocks_for(rows.units, kPerBlock);
    launch("copy_rows", copy_units<U>, static_cast<unsigned>(to.size(0)) * rows.pieces, kCopyRowsThreads, 0, stream,
           rows);
  });
}

}  // namespace fk::cuda
