// Packs matrices as token_layout.h describes it.
#pragma once

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/quantised/matrix_readers.cuh"
#include "backend/cuda/quantised/token_layout.h"

namespace fk::cuda {

inline constexpr int kTokenPackThreads = 256;

// The 16 bytes of a lane.
template <class Codes, class Reader>
FK_HOST_DEVICE uint4 token_words(const Reader& reader, int64_t columns, int64_t row, int64_t step, int lane) {
  const int segment = lane / 4, swap = segment % 2 == 0 ? 0 : token_swap(Codes::kRun);
  const int64_t first = (step * kTokenSegments + segment) * Codes::kStep;
  uint32_t words[4] = {0, 0, 0, 0};
  for (int slice = 0; slice < Codes::kStep / 16; ++slice) {
    for (int e = 0; e < 4; ++e) {
      const int64_t column = first + ((slice_column<Codes::kRun>(slice, lane % 4) + e) ^ swap);
      if (column < columns) Codes::place(words, slice, e, reader.code(row, column));
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

template <class Codes, class Reader>
__global__ void __launch_bounds__(kTokenPackThreads)
    pack_token_rows(const Reader reader, int64_t rows, int64_t columns, int64_t steps, uint4* codes, void* scales) {
  wait_for_previous();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kTokenPackThreads + threadIdx.x;
  const int lane = static_cast<int>(i % 32), segment = lane / 4, quad = lane % 4;
  const int64_t row = i / 32 / steps, step = i / 32 % steps;
  if (row >= rows) return;
  const int64_t first = (step * kTokenSegments + segment) * Codes::kStep;
  codes[i] = token_words<Codes>(reader, columns, row, step, lane);
  if constexpr (token_layout(Codes::kToken).record_bytes == 0) {
    if (step == 0 && lane == 0) static_cast<float*>(scales)[row] = reader.row_scale(row);
  } else {
    using Record = typename Codes::Record;
    static_assert(token_layout(Codes::kToken).record_bytes == sizeof(Record));
    if (quad == 0)
      static_cast<Record*>(scales)[(row * steps + step) * kTokenSegments + segment] =
          first < columns ? reader.template record<Record>(row, first) : Record{};
  }
}

template <class Codes, class Reader>
void pack_for_token(const Reader& reader, int64_t rows, int64_t columns, void* codes, void* scales, void* stream) {
  static_assert(token_layout(Codes::kToken).step_columns == kTokenSegments * Codes::kStep);
  const int64_t steps = token_matrix_size(Codes::kToken, rows, columns).steps;
  launch("pack_token_rows", pack_token_rows<Codes, Reader>, blocks_for(rows * steps * 32, kTokenPackThreads),
         kTokenPackThreads, 0, stream, reader, rows, columns, steps, static_cast<uint4*>(codes), scales);
}

}  // namespace fk::cuda
