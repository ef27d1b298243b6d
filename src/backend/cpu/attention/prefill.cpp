#include "backend/cpu/attention/prefill.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/attention/kv_rows.h"
#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "ops/l1/attention_oracle.h"

namespace fk {
namespace {

// The packed keys and values of the sequences in a round stay below this, unless one sequence alone needs more.
constexpr size_t kPackedBytes = size_t{4} << 20;

// One sequence of a round, and the index of its first work item.
struct SequencePlan {
  int64_t index;
  int64_t first_query, queries;
  int64_t first_key, keys;
  int64_t first_block, blocks;  // those some query sees
  int64_t tiles;                // of rows, per kv head
  int64_t pack_start;           // (sequence, kv head, block) items before this sequence
  int64_t tile_start;           // (sequence, kv head, tile) items before it
};

class Prefill {
 public:
  Prefill(Context& ctx, const PrefillKernel& kernel, const FlashAttnPrefill::Init& init, const PrefillArgs& args)
      : ctx_(ctx),
        kernel_(kernel),
        init_(init),
        args_(args),
        group_(init.num_heads / init.num_kv_heads),
        rule_{init.softmax_scale, init.logits_soft_cap, init.sliding_window, init.causal, init.attention_chunk_size},
        block_bytes_(kernel.block_bytes(init.head_size, init.head_size)),
        scratch_bytes_(round_up(kernel.scratch_bytes(init.head_size, init.head_size))) {}

  void run() {
    int64_t sequences = args_.cu_seqlens_q.size(0) - 1;
    plans_ = reinterpret_cast<SequencePlan*>(bytes(static_cast<size_t>(sequences) * sizeof(SequencePlan)));
    scratch_ = bytes(scratch_bytes_ * static_cast<size_t>(ctx_.pool.threads()));
    for (int64_t next = 0; next < sequences;) {
      next = plan_round(next, sequences);
      Arena::Mark mark = ctx_.arena.mark();
      packed_ = bytes(static_cast<size_t>(pack_items_) * block_bytes_);
      for_items(ctx_.pool, pack_items_, [&](int, int64_t i) { pack(i); });
      for_items(ctx_.pool, tile_items_, [&](int thread, int64_t i) { attend(thread, i); });
      ctx_.arena.release(mark);
    }
  }

 private:
  static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

  std::byte* bytes(size_t n) const {
    return static_cast<std::byte*>(ctx_.arena.make({{static_cast<int64_t>(n)}, DType::kU8}).data());
  }

  // Takes sequences from `next` on while their blocks fit; returns the first one that is left.
  int64_t plan_round(int64_t next, int64_t sequences) {
    const auto* cu_q = args_.cu_seqlens_q.ptr<int32_t>();
    const auto* cu_k = args_.cu_seqlens_k.ptr<int32_t>();
    num_plans_ = pack_items_ = tile_items_ = 0;
    for (; next < sequences; ++next) {
      SequencePlan plan{};
      plan.index = next;
      plan.first_query = cu_q[next];
      plan.queries = cu_q[next + 1] - cu_q[next];
      plan.first_key = cu_k[next];
      plan.keys = cu_k[next + 1] - cu_k[next];
      if (plan.queries == 0) continue;
      // The first query sees the earliest keys, the last one those up to the end.
      plan.first_block = std::min(keys_of(plan, 0).first, plan.keys) / kKeysPerBlock;
      plan.blocks = (plan.keys + kKeysPerBlock - 1) / kKeysPerBlock - plan.first_block;
      plan.tiles = (plan.queries * group_ + kernel_.tile_rows - 1) / kernel_.tile_rows;
      plan.pack_start = pack_items_;
      plan.tile_start = tile_items_;
      int64_t with_this = pack_items_ + plan.blocks * init_.num_kv_heads;
      if (num_plans_ > 0 && static_cast<size_t>(with_this) * block_bytes_ > kPackedBytes) break;
      pack_items_ = with_this;
      tile_items_ += plan.tiles * init_.num_kv_heads;
      plans_[num_plans_++] = plan;
    }
    return next;
  }

  KeyRange keys_of(const SequencePlan& plan, int64_t query) const {
    return visible_keys(rule_, plan.keys - plan.queries + query, plan.keys);
  }

  // The sequence an item belongs to: the last one that starts at or before it.
  const SequencePlan& find(int64_t item, int64_t SequencePlan::*start) const {
    const SequencePlan* after = std::upper_bound(plans_, plans_ + num_plans_, item,
                                                 [&](int64_t i, const SequencePlan& p) { return i < p.*start; });
    return after[-1];
  }

  KvRows rows_of(const View& kv, const SequencePlan& plan) const {
    return args_.block_table ? KvRows::paged(kv, *args_.block_table, plan.index) : KvRows::dense(kv, plan.first_key);
  }

  void pack(int64_t item) const {
    const SequencePlan& plan = find(item, &SequencePlan::pack_start);
    int64_t head = (item - plan.pack_start) / plan.blocks;
    int64_t key = (plan.first_block + (item - plan.pack_start) % plan.blocks) * kKeysPerBlock;
    KvRows k = rows_of(args_.k, plan), v = rows_of(args_.v, plan);
    const void *k_rows[kKeysPerBlock], *v_rows[kKeysPerBlock];
    int64_t keys = std::min(kKeysPerBlock, plan.keys - key);
    // Keys before those that some query sees may be in pages that were freed and now hold a NaN of another sequence,
    // which a weight of zero would not hide. The first key that is seen stands in their place.
    int64_t first_seen = std::min(keys_of(plan, 0).first, plan.keys - 1);
    for (int64_t j = 0; j < keys; ++j) {
      int64_t row = std::max(key + j, first_seen);
      k_rows[j] = k.row(row, head);
      v_rows[j] = v.row(row, head);
    }
    kernel_.pack({k_rows, v_rows, keys, init_.head_size, init_.head_size, args_.k.dtype(),
                  packed_ + static_cast<size_t>(item) * block_bytes_});
  }

  void attend(int thread, int64_t item) const {
    const SequencePlan& plan = find(item, &SequencePlan::tile_start);
    int64_t head = (item - plan.tile_start) / plan.tiles;
    // The last tile of a causal sequence has the most keys: it is started first, for load balance.
    int64_t tile = plan.tiles - 1 - (item - plan.tile_start) % plan.tiles;

    const void* q[kMaxTileRows];
    void* out[kMaxTileRows];
    int32_t first[kMaxTileRows], last[kMaxTileRows];
    float sinks[kMaxTileRows];
    int64_t start = tile * kernel_.tile_rows, rows = std::min(kernel_.tile_rows, plan.queries * group_ - start);
    for (int64_t r = 0; r < kernel_.tile_rows; ++r) {
      int64_t row = start + std::min(r, rows - 1), query = row / group_;
      q[r] = address(args_.q, plan.first_query + query, head * group_ + row % group_);
      out[r] = address(args_.out, plan.first_query + query, head * group_ + row % group_);
      if (args_.sinks) sinks[r] = args_.sinks->ptr<float>()[head * group_ + row % group_];
      KeyRange keys = keys_of(plan, query);
      first[r] = static_cast<int32_t>(keys.first);
      last[r] = static_cast<int32_t>(std::max<int64_t>(keys.last, 0));
    }
    // Both ends grow from query to query.
    int64_t first_block = std::max(first[0] / kKeysPerBlock, plan.first_block);
    int64_t last_block = (last[kernel_.tile_rows - 1] + kKeysPerBlock - 1) / kKeysPerBlock;
    int64_t packed_block = plan.pack_start + head * plan.blocks + first_block - plan.first_block;
    kernel_.attend({.q = q,
                    .out = out,
                    .first = first,
                    .last = last,
                    .sinks = args_.sinks ? sinks : nullptr,
                    .rows = rows,
                    .head_size = init_.head_size,
                    .value_size = init_.head_size,
                    .dtype = args_.q.dtype(),
                    .rule = {static_cast<float>(init_.softmax_scale), static_cast<float>(init_.logits_soft_cap)},
                    .blocks = packed_ + static_cast<size_t>(packed_block) * block_bytes_,
                    .first_block = first_block,
                    .last_block = std::max(first_block, last_block),
                    .scratch = scratch_ + static_cast<size_t>(thread) * scratch_bytes_});
  }

  static void* address(const View& v, int64_t token, int64_t head) {
    int64_t offset = token * v.stride(0) + head * v.stride(1);
    return static_cast<std::byte*>(v.data()) + offset * static_cast<int64_t>(dtype_size(v.dtype()));
  }

  Context& ctx_;
  const PrefillKernel& kernel_;
  const FlashAttnPrefill::Init& init_;
  const PrefillArgs& args_;
  const int64_t group_;
  const AttentionRule rule_;
  const size_t block_bytes_, scratch_bytes_;

  SequencePlan* plans_ = nullptr;
  std::byte *scratch_ = nullptr, *packed_ = nullptr;
  int64_t num_plans_ = 0, pack_items_ = 0, tile_items_ = 0;
};

}  // namespace

void prefill_attention(Context& ctx, const PrefillKernel& kernel, const FlashAttnPrefill::Init& init,
                       const PrefillArgs& args) {
  Prefill(ctx, kernel, init, args).run();
}

std::string_view refuse_prefill(const FlashAttnPrefill::Init& init, Args args) {
  if (init.num_kv_heads <= 0 || init.num_heads % init.num_kv_heads != 0)
    return "num_heads must be a multiple of num_kv_heads";
  for (size_t i : {3u, 4u, 5u})
    if (args[i] && (args[i]->dtype() != DType::kI32 || !args[i]->rows_contiguous()))
      return "its tables must be i32 with contiguous rows";
  if (args[5] && !std::has_single_bit(static_cast<uint64_t>(args[1]->size(1))))
    return "pages must hold a power of two of tokens";
  return refuse_floats({&args[0], &args[1], &args[2], &args[6]});
}

}  // namespace fk
