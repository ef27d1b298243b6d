// Experts in MXFP4 inside the token kernel: how their rows are packed, and which of them a block has. No device code,
// so that a test on the CPU can check it.
//
// A checkpoint stores 32 elements as a scale and 16 bytes of codes: 17 bytes, which cannot be copied or multiplied in
// words. Packed, a row has the codes of all its blocks, then their scales, then zeros up to a multiple of 16 bytes.
//
// Two rows that a warp multiplies at once are an item: the gate and the up row of a feature, which alternate in the
// matrix, or two rows of a down matrix. In both cases they lie side by side.
#pragma once

#include "backend/cuda/decode_megakernel/pair_share.h"

namespace fk::cuda {

inline constexpr int kMxfp4Elements = 32;  // of a block
inline constexpr int kMxfp4CodeBytes = 16;

constexpr int packed_code_bytes(int length) { return length / kMxfp4Elements * kMxfp4CodeBytes; }
constexpr int packed_row_bytes(int length) {
  return packed_code_bytes(length) + (length / kMxfp4Elements + 15) / 16 * 16;
}
constexpr int packed_item_bytes(int length) { return 2 * packed_row_bytes(length); }

// Where x has the element of a column. A word of codes has eight elements of a block: its low half bytes four adjacent
// ones, its high half bytes those 16 further on. It is unpacked into the pairs of half bytes (0, 4), (1, 5), (2, 6) and
// (3, 7), so x has the elements of each word in this order.
constexpr int packed_column(int column) {
  const int in_block = column % kMxfp4Elements, half = in_block / 16, word = in_block % 16 / 4, byte = in_block % 4;
  return column - in_block + 8 * word + 2 * half + 4 * (byte % 2) + byte / 2;
}

struct PackedItem {
  int expert;  // of the chosen ones
  int pair;    // of rows of its matrix
};

// Item i of a block that has these pairs of gate and up, of all chosen experts together.
constexpr PackedItem gate_up_item(PairRange own, int i, int size) {
  const int pair = own.begin + i, expert = pair / size;
  return {expert, pair - expert * size};
}

// The same of down, where a block has the same pairs of rows of each expert.
constexpr int down_items(PairRange own, int chosen) { return own.count() * chosen; }
constexpr PackedItem down_item(PairRange own, int i) {
  const int expert = i / own.count();
  return {expert, own.begin + i - expert * own.count()};
}

}  // namespace fk::cuda
