#include "compiler/codegen/thread_layout.h"

#include <algorithm>

#include "core/error.h"

namespace fk {
namespace {

constexpr int kWarp = 32;
constexpr int kPieceThreads = 128;     // of a block that computes a piece of a row
constexpr int64_t kEnoughPacks = 128;  // with fewer, packs are made smaller

int64_t up_to_warps(int64_t threads) { return (threads + kWarp - 1) / kWarp * kWarp; }

std::vector<int64_t> inner_leads(const LoopNest& nest, const LoopStatement& s) {
  if (s.of_row) return {};
  return {nest.leads.begin() + 1, nest.leads.end()};
}

bool shares_items(const LoopStatement& s) {
  return !s.of_row && (s.kind == LoopStatement::Kind::kFold || s.kind == LoopStatement::Kind::kFill);
}

// Elements of a pack of 16 bytes, of the smallest floats of the kernel.
int widest_pack(const LoopProgram& loops) {
  size_t bytes = 4;
  auto see = [&](DType dtype) {
    if (dtype_is_float(dtype)) bytes = std::min(bytes, dtype_size(dtype));
  };
  for (const auto& [name, use] : loops.arrays) see(use.dtype);
  return static_cast<int>(16 / std::max<size_t>(bytes, 2));
}

}  // namespace

int ThreadLayout::loop_of(const LoopNest& nest, const LoopStatement& s) const {
  const std::vector<int64_t> leads = inner_leads(nest, s);
  for (size_t i = 0; i < loops.size(); ++i)
    if (loops[i].leads == leads && loops[i].count == s.count) return static_cast<int>(i);
  throw Error("A statement of a kernel has no threads.");
}

ThreadLayout make_thread_layout(const LoopProgram& program, bool pieces, int threads) {
  ThreadLayout layout;
  const int widest = widest_pack(program);
  for (const LoopNest& nest : program.nests)
    for (const LoopStatement& s : nest.statements) {
      if (s.kind == LoopStatement::Kind::kScalar) continue;
      ThreadLoop loop{.leads = inner_leads(nest, s), .count = s.count};
      for (int64_t extent : loop.leads) loop.items *= extent;
      if (std::none_of(layout.loops.begin(), layout.loops.end(),
                       [&](const ThreadLoop& l) { return l.leads == loop.leads && l.count == loop.count; }))
        layout.loops.push_back(loop);
    }
  for (ThreadLoop& loop : layout.loops) {
    loop.width = widest;
    while (loop.count % loop.width != 0) loop.width /= 2;
    bool shared = false;
    for (const LoopNest& nest : program.nests)
      for (const LoopStatement& s : nest.statements)
        shared = shared || (shares_items(s) && inner_leads(nest, s) == loop.leads);
    if (shared && loop.items > 1) {
      loop.team = 1;
      continue;
    }
    while (loop.width > 1 && loop.all_packs() < kEnoughPacks) loop.width /= 2;
  }
  // Loops over the same items have teams of one size, so that a thread keeps its item.
  for (ThreadLoop& loop : layout.loops) {
    if (loop.team == 0) continue;
    auto same_items = [&](const ThreadLoop& l) { return l.team > 0 && l.leads == loop.leads; };
    int64_t longest = 0;
    for (const ThreadLoop& l : layout.loops)
      if (same_items(l)) longest = std::max(longest, l.count);
    int width = loop.width, team = 1;
    while (team < kWarp && team * width < longest) team *= 2;
    while (width > 1 && team < kWarp && loop.items * team * 2 <= kMostBlockThreads / 2) width /= 2, team *= 2;
    for (ThreadLoop& l : layout.loops)
      if (same_items(l)) {
        l.team = std::max(l.team, team);
        while (l.width > 1 && l.packs() * 2 <= team) l.width /= 2;
      }
  }
  // A team of one thread is no other than the others; it must not be taken for none.
  for (ThreadLoop& loop : layout.loops)
    if (loop.team == 1) loop.team = 2;
  int64_t most = 1, all_packs = 1;
  for (const ThreadLoop& loop : layout.loops) {
    most = std::max(most, loop.team > 0 ? loop.items * loop.team : loop.all_packs());
    all_packs = std::max(all_packs, loop.all_packs());
    if (loop.team > 0) pieces = false;
  }
  if (pieces && threads == 0 && all_packs > kPieceThreads) {
    layout.threads = kPieceThreads;
    layout.pieces = (all_packs + kPieceThreads - 1) / kPieceThreads;
    return layout;
  }
  layout.threads = threads > 0 ? threads : static_cast<int>(std::min<int64_t>(up_to_warps(most), kMostBlockThreads));
  for (const ThreadLoop& loop : layout.loops) {
    if (loop.team > 0 ? loop.items * loop.team > layout.threads || loop.packs() > loop.team
                      : loop.all_packs() > layout.threads)
      layout.once = false;
  }
  return layout;
}

}  // namespace fk
