#include "backend/cpu/attention/decode.h"

#include <algorithm>

#include "backend/cpu/attention/decode_block.h"
#include "backend/cpu/attention/for_items.h"
#include "backend/cpu/attention/kv_rows.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/l1/attention_oracle.h"

namespace fk {
namespace {

// Keys of a sequence are cut every so many, from its first visible block on. The cut depends on nothing else, so a
// result is the same whatever else is in the batch and however many threads there are.
constexpr int64_t kSplitKeys = 256;
static_assert(kSplitKeys % kDecodeKeys == 0 && kDecodeKeys % kBlockSize == 0);

// Tasks per thread below which the kv heads of a split are divided too.
constexpr int64_t kTasksPerThread = 4;

struct SequencePlan {
  int64_t first, last;  // keys seen
  int64_t begin;        // where the first split starts: `first`, rounded down to a block
  int64_t splits;
  int64_t split_start;  // splits of the sequences before
};

class Decode {
 public:
  Decode(Context& ctx, const FlashAttnDecode::Init& init, const DecodeArgs& args)
      : ctx_(ctx), init_(init), args_(args), Dh_(init.head_size), group_(init.num_heads / init.num_kv_heads),
        quads_per_head_((group_ + kQuad - 1) / kQuad), sequences_(args.q.size(0)) {}

  void run() {
    plan();
    int64_t quads = init_.num_kv_heads * quads_per_head_;
    state_stride_ = quads * QuadState::width(Dh_);
    states_ = floats(splits_ * state_stride_);
    queries_ = floats(sequences_ * quads * kQuad * Dh_);
    scratch_stride_ = kDecodeKeys * (kQuad + padded_head(Dh_));
    scratch_ = floats(scratch_stride_ * ctx_.pool.threads());
    ctx_.pool.parallel_for(sequences_, 8, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) widen_query(s);
    });

    int64_t heads = init_.num_kv_heads, per_task = heads;
    while (per_task > 1 && splits_ * ((heads + per_task - 1) / per_task) < kTasksPerThread * ctx_.pool.threads()) per_task /= 2;
    int64_t parts = (heads + per_task - 1) / per_task;
    for_items(ctx_.pool, splits_ * parts, [&](int thread, int64_t i) {
      int64_t head = i % parts * per_task;
      attend(thread, i / parts, head, std::min(head + per_task, heads));
    });
    for_items(ctx_.pool, sequences_, [&](int, int64_t s) { finish(s); });
  }

 private:
  float* floats(int64_t n) const { return ctx_.arena.make({{n}, DType::kF32}).ptr<float>(); }

  void plan() {
    plans_ = reinterpret_cast<SequencePlan*>(
        ctx_.arena.make({{sequences_ * static_cast<int64_t>(sizeof(SequencePlan))}, DType::kU8}).data());
    AttentionRule rule{.sliding_window = init_.sliding_window};
    const auto* lengths = args_.cache_seqlens.ptr<int32_t>();
    for (int64_t s = 0; s < sequences_; ++s) {
      KeyRange keys = visible_keys(rule, lengths[s] - 1, lengths[s]);
      int64_t begin = keys.first / kBlockSize * kBlockSize;
      int64_t splits = std::max<int64_t>(0, keys.last - begin + kSplitKeys - 1) / kSplitKeys;
      plans_[s] = {keys.first, keys.last, begin, splits, splits_};
      splits_ += splits;
    }
  }

  float* query(int64_t s, int64_t quad) const { return queries_ + (s * init_.num_kv_heads * quads_per_head_ + quad) * kQuad * Dh_; }
  QuadState state(int64_t split, int64_t quad) const {
    return {states_ + split * state_stride_ + quad * QuadState::width(Dh_), Dh_};
  }

  // Runs body(quad, i, head) for the query heads of all quads; places of a quad that no head fills are left out.
  template <class Body>
  void for_heads(Body&& body) const {
    for (int64_t h = 0; h < init_.num_heads; ++h) {
      int64_t in_group = h % group_;
      body(h / group_ * quads_per_head_ + in_group / kQuad, in_group % kQuad, h);
    }
  }

  void widen_query(int64_t s) const {
    std::fill_n(query(s, 0), init_.num_kv_heads * quads_per_head_ * kQuad * Dh_, 0.0f);
    with_float(args_.q.dtype(), [&]<class T>(T) {
      const T* rows = args_.q.ptr<T>() + s * args_.q.stride(0);
      for_heads([&](int64_t quad, int64_t i, int64_t head) {
        const T* from = rows + head * args_.q.stride(1);
        float* to = query(s, quad) + i * Dh_;
        for (int64_t d = 0; d < Dh_; ++d) to[d] = load(from[d]);
      });
    });
  }

  void attend(int thread, int64_t split, int64_t first_head, int64_t last_head) const {
    int64_t s = std::upper_bound(plans_, plans_ + sequences_, split, [](int64_t i, const SequencePlan& p) { return i < p.split_start; }) - plans_ - 1;
    const SequencePlan& plan = plans_[s];
    int64_t begin = plan.begin + (split - plan.split_start) * kSplitKeys;
    int64_t end = std::min(begin + kSplitKeys, plan.last);
    KvRows k = KvRows::paged(args_.k_cache, args_.block_table, s), v = KvRows::paged(args_.v_cache, args_.block_table, s);
    ScoreRule rule{static_cast<float>(init_.softmax_scale), static_cast<float>(init_.logits_soft_cap)};

    float *scores = scratch_ + thread * scratch_stride_, *values = scores + kDecodeKeys * kQuad;
    const void *k_rows[kDecodeKeys], *v_rows[kDecodeKeys];
    for (int64_t q = first_head * quads_per_head_; q < last_head * quads_per_head_; ++q) clear_state(state(split, q), Dh_);
    for (int64_t block = begin; block < end; block += kDecodeKeys) {
      int64_t key = std::max(block, plan.first), keys = std::min(block + kDecodeKeys, end) - key;
      for (int64_t head = first_head; head < last_head; ++head) {
        for (int64_t j = 0; j < keys; ++j) {
          k_rows[j] = k.row(key + j, head);
          v_rows[j] = v.row(key + j, head);
        }
        for (int64_t q = head * quads_per_head_; q < (head + 1) * quads_per_head_; ++q)
          decode_block({query(s, q), k_rows, v_rows, keys, Dh_, args_.k_cache.dtype(), rule, scores, values}, state(split, q));
      }
    }
  }

  // Joins the splits of a sequence, always in the same order, in the place of the first.
  void finish(int64_t s) const {
    const SequencePlan& plan = plans_[s];
    for (int64_t i = 1; i < plan.splits; ++i)
      for (int64_t q = 0; q < init_.num_kv_heads * quads_per_head_; ++q)
        merge_state(state(plan.split_start + i, q), state(plan.split_start, q), Dh_);
    with_float(args_.out.dtype(), [&]<class T>(T) {
      T* rows = args_.out.ptr<T>() + s * args_.out.stride(0);
      for_heads([&](int64_t quad, int64_t i, int64_t head) {
        T* out = rows + head * args_.out.stride(1);
        if (plan.splits == 0) {  // no keys: zero
          for (int64_t d = 0; d < Dh_; ++d) store(out[d], 0.0f);
          return;
        }
        QuadState whole = state(plan.split_start, quad);
        float factor = 1 / whole.weights[i];
        for (int64_t d = 0; d < Dh_; ++d) store(out[d], whole.sum(i, d) * factor);
      });
    });
  }

  Context& ctx_;
  const FlashAttnDecode::Init& init_;
  const DecodeArgs& args_;
  const int64_t Dh_, group_, quads_per_head_, sequences_;

  SequencePlan* plans_ = nullptr;
  int64_t splits_ = 0, state_stride_ = 0, scratch_stride_ = 0;
  float *states_ = nullptr, *queries_ = nullptr, *scratch_ = nullptr;
};

}  // namespace

void decode_attention(Context& ctx, const FlashAttnDecode::Init& init, const DecodeArgs& args) { Decode(ctx, init, args).run(); }

std::string_view refuse_decode(const FlashAttnDecode::Init& init, Args args) {
  if (init.num_kv_heads <= 0 || init.num_heads % init.num_kv_heads != 0) return "it wants the same number of query heads for each kv head";
  for (size_t i : {3u, 4u})
    if (args[i]->dtype() != DType::kI32 || !args[i]->rows_contiguous()) return "its tables must be i32 with contiguous rows";
  return refuse_floats({&args[0], &args[1], &args[2], &args[5]});
}

}  // namespace fk
