// Products of many rows with vector instructions: x is packed once so that a vector holds one k of several rows, and
// weights, in rows as they are stored, are broadcast. A panel of x stays in L1 while a block of weights is streamed;
// that block and its sums stay in L2.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul/matmul.h"

namespace fk {

// A k-step is one 4-byte slot of a row: one f32, or a pair of bf16. Columns of a panel are rows of x.
struct PackTask {
  const void* x;  // `rows` rows
  int64_t x_stride;
  int64_t rows;   // of x, at most `width`; the panel's other columns become zero
  int64_t k;      // elements of each row; an odd bf16 is paired with zero
  int64_t width;  // columns of the panel, a multiple of the kernel's lanes
  void* panel;    // [steps][width]
};

struct CopyTask {
  const void* w;  // one row of k elements
  int64_t k;
  void* copy;  // room for k floats
};

struct PanelTask {
  const void* panel;     // [steps][width]
  int64_t width;         // of the panel: 1 .. vectors times lanes
  const void* const* w;  // one address per row of the group; rows past the end repeat the last one
  int64_t k;             // elements of a w row
  float* c;              // [group][c_stride]: sums, f32
  int64_t c_stride;
  bool first;  // start from zero instead of from c
};

struct StoreTask {
  const float* c;  // [n][c_stride]
  int64_t c_stride;
  int64_t m, n;      // of this block
  const void* bias;  // of its first column, or null
  void* y;           // of its first element
  int64_t y_stride;
  DType bias_dtype, y_dtype;
};

struct BlockedKernel {
  int64_t lanes;    // rows of x in a vector
  int64_t vectors;  // vectors in the widest panel
  int64_t group;    // rows of w multiplied at a time
  int64_t k_per_step;
  int64_t steps;  // of a block of k: its widest panel, and a group of w, fit L1
  void (*pack)(const PackTask&);
  void (*copy)(const CopyTask&);  // copies a row of w for multiply(); null if it reads w itself
  void (*multiply)(const PanelTask&);
  void (*store)(const StoreTask&);
};

inline constexpr int64_t kMaxGroup = 8;

void matmul_blocked(const MatmulArgs& args, ThreadPool& pool, const BlockedKernel& kernel);

}  // namespace fk
