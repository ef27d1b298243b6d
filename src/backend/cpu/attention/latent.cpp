#include "backend/cpu/attention/latent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

// As in prefill.cpp: packed keys and values of a round stay below this, unless one set alone needs more.
constexpr size_t kPackedBytes = size_t{4} << 20;
// Rows of one decoding token are few: its keys are divided into pieces of so many, so that threads share the work. The
// number does not depend on the threads, nor does the result.
constexpr int64_t kSplitBlocks = 512 / kKeysPerBlock;
constexpr int64_t kFewTiles = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct SetPlan {
  int64_t index;
  LatentSets::Set set;
  int64_t blocks = 0, tiles = 0, splits = 0;
  int64_t pack_start = 0;   // blocks before this set
  int64_t tile_start = 0;   // (set, split, tile) items before it
  int64_t merge_start = 0;  // rows before it that are merged
};

class Latent {
 public:
  Latent(Context& ctx, const PrefillKernel& kernel, const LatentSizes& sizes, const LatentSets& sets)
      : ctx_(ctx),
        kernel_(kernel),
        sizes_(sizes),
        sets_(sets),
        row_bytes_(static_cast<size_t>(sizes.head_size) * dtype_size(sizes.dtype)),
        block_bytes_(kernel.block_bytes(sizes.head_size, sizes.value_size)),
        // Of the kernel, then the queries of a tile, or the keys of a block.
        kernel_bytes_(round_up(kernel.scratch_bytes(sizes.head_size, sizes.value_size))),
        scratch_bytes_(kernel_bytes_ + round_up(row_bytes_ * static_cast<size_t>(kKeysPerBlock))) {}

  void run() {
    int64_t count = sets_.count();
    plans_ = reinterpret_cast<SetPlan*>(bytes(static_cast<size_t>(count) * sizeof(SetPlan)));
    scratch_ = bytes(scratch_bytes_ * static_cast<size_t>(ctx_.pool.threads()));
    for (int64_t next = 0; next < count;) {
      next = plan_round(next, count);
      Arena::Mark mark = ctx_.arena.mark();
      packed_ = bytes(static_cast<size_t>(pack_items_) * block_bytes_);
      partial_ = ctx_.arena.make({{merge_rows_ * sizes_.value_size}, DType::kF32}).ptr<float>();
      partial_lse_ = ctx_.arena.make({{merge_rows_}, DType::kF32}).ptr<float>();
      for_items(ctx_.pool, pack_items_, [&](int thread, int64_t i) { pack(thread, i); });
      for_items(ctx_.pool, tile_items_, [&](int thread, int64_t i) { attend(thread, i); });
      for (int64_t p = 0; p < num_plans_; ++p)
        if (plans_[p].splits > 1)
          for_rows(ctx_.pool, plans_[p].set.rows, plans_[p].splits * sizes_.value_size,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) merge(plans_[p], row);
                   });
      ctx_.arena.release(mark);
    }
  }

 private:
  static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }
  std::byte* bytes(size_t n) const {
    return static_cast<std::byte*>(ctx_.arena.make({{static_cast<int64_t>(n)}, DType::kU8}).data());
  }

  int64_t plan_round(int64_t next, int64_t count) {
    num_plans_ = pack_items_ = tile_items_ = merge_rows_ = 0;
    for (; next < count; ++next) {
      SetPlan plan{.index = next, .set = sets_.set(next)};
      if (plan.set.rows == 0) continue;
      plan.blocks = (plan.set.keys + kKeysPerBlock - 1) / kKeysPerBlock;
      plan.tiles = (plan.set.rows + kernel_.tile_rows - 1) / kernel_.tile_rows;
      plan.splits = plan.tiles <= kFewTiles ? std::max<int64_t>(1, (plan.blocks + kSplitBlocks - 1) / kSplitBlocks) : 1;
      plan.pack_start = pack_items_;
      plan.tile_start = tile_items_;
      plan.merge_start = merge_rows_;
      if (num_plans_ > 0 && static_cast<size_t>(pack_items_ + plan.blocks) * block_bytes_ > kPackedBytes) break;
      pack_items_ += plan.blocks;
      tile_items_ += plan.tiles * plan.splits;
      if (plan.splits > 1) merge_rows_ += plan.splits * plan.set.rows;
      plans_[num_plans_++] = plan;
    }
    return next;
  }

  // The set an item belongs to: the last one that starts at or before it. Sets without blocks have no items to pack.
  const SetPlan& find(int64_t item, int64_t SetPlan::*start) const {
    const SetPlan* after = std::upper_bound(plans_, plans_ + num_plans_, item,
                                            [&](int64_t i, const SetPlan& p) { return i < p.*start; });
    return after[-1];
  }

  std::byte* scratch_of(int thread) const { return scratch_ + static_cast<size_t>(thread) * scratch_bytes_; }

  void pack(int thread, int64_t item) const {
    const SetPlan& plan = find(item, &SetPlan::pack_start);
    int64_t key = (item - plan.pack_start) * kKeysPerBlock, keys = std::min(kKeysPerBlock, plan.set.keys - key);
    const void *k[kKeysPerBlock], *v[kKeysPerBlock];
    sets_.key_rows(plan.index, key, keys, k, v, scratch_of(thread) + kernel_bytes_);
    kernel_.pack({k, v, keys, sizes_.head_size, sizes_.value_size, sizes_.dtype,
                  packed_ + static_cast<size_t>(item) * block_bytes_});
  }

  void attend(int thread, int64_t item) const {
    const SetPlan& plan = find(item, &SetPlan::tile_start);
    // The last tiles see the most keys: they are started first, for load balance.
    int64_t at = plan.tiles * plan.splits - 1 - (item - plan.tile_start), split = at % plan.splits;
    int64_t start = at / plan.splits * kernel_.tile_rows, rows = std::min(kernel_.tile_rows, plan.set.rows - start);
    int64_t from = plan.splits > 1 ? split * kSplitBlocks : 0;
    int64_t to = plan.splits > 1 ? std::min(from + kSplitBlocks, plan.blocks) : plan.blocks;

    const void* q[kMaxTileRows];
    void* out[kMaxTileRows];
    int32_t first[kMaxTileRows], last[kMaxTileRows];
    float lse[kMaxTileRows];
    std::byte* queries = scratch_of(thread) + kernel_bytes_;
    for (int64_t r = 0; r < kernel_.tile_rows; ++r) {
      int64_t row = start + std::min(r, rows - 1);
      std::byte* copy = queries + static_cast<size_t>(std::min(r, rows - 1)) * row_bytes_;
      if (r < rows) sets_.copy_query(plan.index, row, copy);
      q[r] = copy;
      out[r] = plan.splits > 1 ? partial_row(plan, split, row) : sets_.out_row(plan.index, row);
      int64_t seen = std::clamp<int64_t>(sets_.keys_of_row(plan.index, row), 0, to * kKeysPerBlock);
      first[r] = static_cast<int32_t>(from * kKeysPerBlock);
      last[r] = static_cast<int32_t>(seen);
      if (last[r] < first[r]) last[r] = first[r];
    }
    int64_t last_block = std::max(from, (last[kernel_.tile_rows - 1] + kKeysPerBlock - 1) / kKeysPerBlock);
    kernel_.attend({.q = q,
                    .out = out,
                    .first = first,
                    .last = last,
                    .sinks = nullptr,
                    .rows = rows,
                    .head_size = sizes_.head_size,
                    .value_size = sizes_.value_size,
                    .dtype = sizes_.dtype,
                    .rule = {static_cast<float>(sizes_.softmax_scale), 0},
                    .blocks = packed_ + static_cast<size_t>(plan.pack_start + from) * block_bytes_,
                    .first_block = from,
                    .last_block = last_block,
                    .scratch = scratch_of(thread),
                    .lse = lse,
                    .float_out = plan.splits > 1});
    for (int64_t r = 0; r < rows; ++r) {
      if (plan.splits > 1)
        partial_lse_[plan.merge_start + split * plan.set.rows + start + r] = lse[r];
      else if (float* to_lse = sets_.lse_of(plan.index, start + r))
        *to_lse = lse[r];
    }
  }

  float* partial_row(const SetPlan& plan, int64_t split, int64_t row) const {
    return partial_ + (plan.merge_start + split * plan.set.rows + row) * sizes_.value_size;
  }

  // The splits of a row, always in the same order.
  void merge(const SetPlan& plan, int64_t row) const {
    auto lse = [&](int64_t split) { return partial_lse_[plan.merge_start + split * plan.set.rows + row]; };
    float largest = -kInfinity, sum = 0;
    for (int64_t i = 0; i < plan.splits; ++i) largest = std::max(largest, lse(i));
    float shift = largest == -kInfinity ? 0 : largest;
    float* total = partial_row(plan, 0, row);
    for (int64_t i = 0; i < plan.splits; ++i) {
      float weight = std::exp(lse(i) - shift);
      sum += weight;
      const float* part = partial_row(plan, i, row);
      for (int64_t d = 0; d < sizes_.value_size; ++d) total[d] = (i == 0 ? 0 : total[d]) + weight * part[d];
    }
    float factor = sum > 0 ? 1 / sum : sum;  // a NaN stays one
    with_float(sizes_.dtype, [&]<class T>(T) {
      T* out = static_cast<T*>(sets_.out_row(plan.index, row));
      for (int64_t d = 0; d < sizes_.value_size; ++d) store(out[d], total[d] * factor);
    });
    if (float* to = sets_.lse_of(plan.index, row)) *to = largest + std::log(sum);
  }

  Context& ctx_;
  const PrefillKernel& kernel_;
  const LatentSizes& sizes_;
  const LatentSets& sets_;
  const size_t row_bytes_, block_bytes_, kernel_bytes_, scratch_bytes_;

  SetPlan* plans_ = nullptr;
  std::byte *scratch_ = nullptr, *packed_ = nullptr;
  float *partial_ = nullptr, *partial_lse_ = nullptr;
  int64_t num_plans_ = 0, pack_items_ = 0, tile_items_ = 0, merge_rows_ = 0;
};

}  // namespace

void latent_attention(Context& ctx, const PrefillKernel& kernel, const LatentSizes& sizes, const LatentSets& sets) {
  Latent(ctx, kernel, sizes, sets).run();
}

}  // namespace fk
