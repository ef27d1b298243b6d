// ThreadLayout: which thread of a block computes which elements of a row.
//
// A block computes one row of all nests, or a piece of one. A thread has packs of neighbouring elements. Where a nest
// folds the elements of an item (the elements of one head), the threads of a team share an item; else its elements are
// dealt out in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/loop_nest.h"

namespace fk {

// Loops of one kind: `items` indices of l1, l2, ..., each with `count` of i.
struct ThreadLoop {
  std::vector<int64_t> leads;  // extents of l1, l2, ...
  int64_t items = 1;
  int64_t count = 1;
  int team = 0;   // threads that share an item; 0: all elements of the row are dealt out to all threads
  int width = 1;  // elements of a pack

  int64_t packs() const { return count / width; }  // of an item
  int64_t all_packs() const { return items * packs(); }
};

struct ThreadLayout {
  std::vector<ThreadLoop> loops;
  int threads = 32;    // of a block
  int64_t pieces = 1;  // blocks that share a row
  bool once = true;    // every thread has at most one pack of each loop
  // Of a statement of a nest: index into `loops`.
  int loop_of(const LoopNest& nest, const LoopStatement& statement) const;
};

inline constexpr int kMostBlockThreads = 1024;

// `pieces`: rows may be divided over blocks, since no thread reads what another one computes. `threads`: that share a
// row, a multiple of a warp; 0: as many as it has packs.
ThreadLayout make_thread_layout(const LoopProgram& loops, bool pieces, int threads = 0);

}  // namespace fk
