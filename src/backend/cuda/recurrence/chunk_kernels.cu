#include "backend/cuda/recurrence/chunk_kernels.h"

#include "backend/cuda/recurrence/chunk_scratch.cuh"

namespace fk::cuda {
namespace {

int padded_channels(const LinearRecurrence& c) { return static_cast<int>((c.state.size(2) + 15) / 16 * 16); }

// Floats of one chunk of one head in each of the arrays.
struct ScratchSizes {
  int64_t rows, square, decay;
  int row_arrays, squares;

  explicit ScratchSizes(const LinearRecurrence& c)
      : rows(kChunk * padded_channels(c)), square(kChunk * kChunk), decay(padded_channels(c)) {
    const Delta delta = delta_of(c);
    row_arrays = delta == Delta::kNone ? 2 : delta == Delta::kBeta ? 3 : 4;
    squares = delta == Delta::kNone ? 1 : delta == Delta::kBeta ? 2 : 3;
  }
  int64_t floats() const { return row_arrays * rows + squares * square + decay; }
};

}  // namespace

bool chunks_fit(const LinearRecurrence& call) {
  const int channels = padded_channels(call);
  return channels <= 256 && scan_shared_bytes(delta_of(call), channels) <= kMostSharedBytes;
}

int64_t chunk_scratch_floats(const LinearRecurrence& call) { return call.heads() * ScratchSizes(call).floats(); }

void run_chunk_kernels(const LinearRecurrence& call, float* scratch, int64_t first, int64_t count, void* stream) {
  const ScratchSizes sizes(call);
  const int64_t places = count * call.heads();
  ChunkScratch s{};
  s.channels = padded_channels(call);
  s.heads = static_cast<int>(call.heads());
  s.first = static_cast<int>(first);
  s.count = static_cast<int>(count);
  float* at = scratch;
  auto take = [&](float*& array, bool needed, int64_t floats) {
    array = at;
    if (needed) at += places * floats;
  };
  take(s.q, true, sizes.rows);
  take(s.k, true, sizes.rows);
  take(s.w, sizes.row_arrays > 2, sizes.rows);
  take(s.b, sizes.row_arrays > 3, sizes.rows);
  take(s.qk, true, sizes.square);
  take(s.p, sizes.squares > 1, sizes.square);
  take(s.qb, sizes.squares > 2, sizes.square);
  take(s.decay, true, sizes.decay);
  with_float_type(call.q.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (sizeof(T) == 2) {
      const DeviceRecurrence<T> device = on_device<T>(call);
      prepare_chunks(delta_of(call), device, s, stream);
      scan_chunks(delta_of(call), device, s, stream);
    }
  });
}

}  // namespace fk::cuda
