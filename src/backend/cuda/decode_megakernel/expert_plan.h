// Where the rows of the chosen experts are: in memory, and in the chunks that a block loads. No device code, so that a
// test on the CPU can check it.
//
// Gate and up of all chosen experts are one product: pair p is feature p % size of chosen expert p / size. Their down
// matrices are one product too: a row is the same row of all of them, one after the other, each with zeros up to a
// whole step, and their weighted sum needs no memory.
#pragma once

#include "backend/cuda/decode_megakernel/pair_share.h"

namespace fk::cuda {

// A round of pairs belongs to at most two experts.
inline constexpr int kFewestOfExpert = 16;

// Columns that one expert has in a row of the down product.
constexpr int padded_expert(int size) { return (size + kStep - 1) / kStep * kStep; }

// The rows of one load warp in a round of gate and up: each second pair's gate row, or up row.
struct GateUpRows {
  int expert;        // of the chosen ones: the one that has the first pair of the round
  int rows;          // of this expert
  int first;         // row of the expert's matrix; the next are two rows apart
  int rows_of_next;  // of the expert after it
  int first_of_next;
};

// Load warp `warp` of four: 0 and 2 have gate rows, 1 and 3 up rows.
constexpr GateUpRows gate_up_rows(PairRange round, int warp, int size) {
  const int expert = round.begin / size, inner = round.begin - expert * size, own = warp / 2;
  const int here = round.count() < size - inner ? round.count() : size - inner;  // pairs of the first expert
  const int rows = (here - own + 1) / 2, all = (round.count() - own + 1) / 2;
  const int matrix = warp % 2 * size;
  return {.expert = expert,
          .rows = rows,
          .first = matrix + inner + own,
          .rows_of_next = all - rows,
          .first_of_next = matrix + own + 2 * rows - here};
}

// A part of a chunk of the down product that has one expert.
struct DownRun {
  int expert;  // of the chosen ones
  int column;  // of its matrix
  int columns;
};

// The run that starts at column `at` of the product, in a chunk that ends before `end`.
constexpr DownRun down_run(int at, int end, int padded) {
  const int expert = at / padded, column = at - expert * padded;
  return {expert, column, end - at < padded - column ? end - at : padded - column};
}

// Words of two elements from one row of a block's part of the router to the next: odd, so that lanes which read
// different rows use different banks.
constexpr int router_stride(int hidden, int blocks) { return ((hidden / 2 + blocks - 1) / blocks) | 1; }

}  // namespace fk::cuda
