// Which rows of a batch belong to a sequence, and which slot its states have: decoding sequences first, one row each.
#pragma once

#include <cstdint>

#include "ops/forward_context.h"

namespace fk::cuda {

struct SequenceRow {
  int first, last;
  int64_t slot;  // negative: it has none
};

struct SequenceRows {
  int decoding;  // sequences, and rows
  const int32_t* decode_slots;
  const int32_t* prefill_slots;
  const int32_t* prefill_starts;

  explicit SequenceRows(const AttentionMetadata& batch)
      : decoding(static_cast<int>(batch.decode.num_tokens)),
        decode_slots(static_cast<const int32_t*>(batch.decode.state_slots.data())),
        prefill_slots(static_cast<const int32_t*>(batch.prefill.state_slots.data())),
        prefill_starts(static_cast<const int32_t*>(batch.prefill.cu_seqlens_q.data())) {}

  static unsigned count(const AttentionMetadata& batch) {
    return static_cast<unsigned>(batch.decode.num_tokens +
                                 (batch.prefill.num_tokens > 0 ? batch.prefill.num_sequences : 0));
  }

  __device__ __forceinline__ SequenceRow of(int sequence, int64_t slots) const {
    SequenceRow row{sequence, sequence + 1, 0};
    if (sequence < decoding) {
      row.slot = decode_slots[sequence];
    } else {
      const int s = sequence - decoding;
      row = {decoding + prefill_starts[s], decoding + prefill_starts[s + 1], prefill_slots[s]};
    }
    if (row.slot >= slots) row.slot = -1;
    return row;
  }
};

}  // namespace fk::cuda
