#include "backend/cpu/attention/decode.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/attention/kv_rows.h"
#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/vector_math.h"
#include "ops/l1/attention_oracle.h"

namespace fk {
namespace {

// The keys of a sequence are split at fixed intervals, from its first visible block on. The split depends on nothing
// else, so the result does not depend on the rest of the batch or on the number of threads.
constexpr int64_t kSplitKeys = 256;
constexpr int64_t kTileKeys = 16;
static_assert(kSplitKeys % kDecodeKeys == 0 && kDecodeKeys % kTileKeys == 0);

// Tasks per thread below which the kv heads of a split are divided too.
constexpr int64_t kTasksPerThread = 4;

constexpr int64_t kMaxGroup = 256;  // query heads that may share a kv head

struct SequencePlan {
  int64_t first, last;  // keys seen
  int64_t begin;        // where the first split starts: `first`, rounded down to a tile
  int64_t splits;
  int64_t split_start;  // splits of the sequences before
};

class Decode {
 public:
  Decode(Context& ctx, const DecodeKernel& kernel, const FlashAttnDecode::Init& init, const DecodeArgs& args)
      : ctx_(ctx),
        kernel_(kernel),
        init_(init),
        args_(args),
        head_size_(init.head_size),
        kv_heads_(init.num_kv_heads),
        group_(init.num_heads / init.num_kv_heads),
        quads_(quads_of(group_)),
        sequences_(args.q.size(0)),
        query_bytes_(round_up(kernel.query_bytes(group_, head_size_))),
        state_width_(QuadState::width(head_size_)) {}

  void run() {
    plan();
    states_ = reinterpret_cast<float*>(bytes(splits_ * kv_heads_ * quads_ * state_width_ * 4));
    queries_ = bytes(sequences_ * kv_heads_ * query_bytes_);
    ctx_.pool.parallel_for(sequences_ * kv_heads_, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) prepare(i / kv_heads_, i % kv_heads_);
    });

    int64_t per_task = kv_heads_;
    while (per_task > 1 && splits_ * ((kv_heads_ + per_task - 1) / per_task) < kTasksPerThread * ctx_.pool.threads())
      per_task /= 2;
    int64_t parts = (kv_heads_ + per_task - 1) / per_task;
    // If a window starts inside a block, the number of weights is rounded up beyond the last score: kSumLanes more.
    scratch_bytes_ =
        round_up((kDecodeKeys * padded_head(head_size_) + per_task * quads_ * kDecodeKeys * kQuad + kSumLanes) * 4);
    scratch_ = bytes(scratch_bytes_ * ctx_.pool.threads());
    for_items(ctx_.pool, splits_ * parts, [&](int thread, int64_t i) {
      int64_t head = i % parts * per_task;
      attend(thread, i / parts, head, std::min(head + per_task, kv_heads_));
    });
    ctx_.pool.parallel_for(sequences_ * kv_heads_, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) finish(i / kv_heads_, i % kv_heads_);
    });
  }

 private:
  static int64_t round_up(int64_t n) { return (n + 63) / 64 * 64; }
  static int64_t round_up(size_t n) { return round_up(static_cast<int64_t>(n)); }
  std::byte* bytes(int64_t n) const { return static_cast<std::byte*>(ctx_.arena.make({{n}, DType::kU8}).data()); }

  void plan() {
    plans_ = reinterpret_cast<SequencePlan*>(bytes(sequences_ * static_cast<int64_t>(sizeof(SequencePlan))));
    AttentionRule rule{.sliding_window = init_.sliding_window, .chunk_size = init_.attention_chunk_size};
    const auto* lengths = args_.cache_seqlens.ptr<int32_t>();
    for (int64_t s = 0; s < sequences_; ++s) {
      KeyRange keys = visible_keys(rule, lengths[s] - 1, lengths[s]);
      int64_t begin = keys.first / kTileKeys * kTileKeys;
      int64_t splits = std::max<int64_t>(0, keys.last - begin + kSplitKeys - 1) / kSplitKeys;
      plans_[s] = {keys.first, keys.last, begin, splits, splits_};
      splits_ += splits;
    }
  }

  std::byte* query(int64_t s, int64_t kv_head) const { return queries_ + (s * kv_heads_ + kv_head) * query_bytes_; }
  QuadState state(int64_t split, int64_t kv_head, int64_t quad) const {
    return {states_ + ((split * kv_heads_ + kv_head) * quads_ + quad) * state_width_, head_size_};
  }
  static std::byte* row(const View& v, int64_t s, int64_t head) {
    return static_cast<std::byte*>(v.data()) +
           (s * v.stride(0) + head * v.stride(1)) * static_cast<int64_t>(dtype_size(v.dtype()));
  }

  void prepare(int64_t s, int64_t kv_head) const {
    const void* q[kMaxGroup];
    for (int64_t i = 0; i < group_; ++i) q[i] = row(args_.q, s, kv_head * group_ + i);
    kernel_.prepare({q, group_, head_size_, args_.q.dtype(), query(s, kv_head)});
  }

  void attend(int thread, int64_t split, int64_t first_head, int64_t last_head) const {
    const SequencePlan* after = std::upper_bound(plans_, plans_ + sequences_, split,
                                                 [](int64_t i, const SequencePlan& p) { return i < p.split_start; });
    const SequencePlan& plan = after[-1];
    int64_t s = &plan - plans_;
    int64_t begin = plan.begin + (split - plan.split_start) * kSplitKeys;
    int64_t end = std::min(begin + kSplitKeys, plan.last);
    KvRows k = KvRows::paged(args_.k_cache, args_.block_table, s),
           v = KvRows::paged(args_.v_cache, args_.block_table, s);
    DType dtype = args_.k_cache.dtype();
    ScoreRule rule{static_cast<float>(init_.softmax_scale), static_cast<float>(init_.logits_soft_cap)};

    auto* panels = reinterpret_cast<float*>(scratch_ + thread * scratch_bytes_);
    float* scores = panels + kDecodeKeys * padded_head(head_size_);
    int64_t scores_per_head = quads_ * kDecodeKeys * kQuad;
    const void* rows[kDecodeKeys];
    for (int64_t head = first_head; head < last_head; ++head)
      for (int64_t quad = 0; quad < quads_; ++quad) clear_state(state(split, head, quad), head_size_);
    for (int64_t key = begin; key < end; key += kDecodeKeys) {
      int64_t keys = std::min(kDecodeKeys, end - key), unseen = std::max<int64_t>(plan.first - key, 0);
      for (int64_t head = first_head; head < last_head; ++head) {
        for (int64_t j = 0; j < keys; ++j) rows[j] = k.row(key + j, head);
        kernel_.multiply({query(s, head), rows, k.token_stride_bytes(), keys, group_, head_size_, dtype,
                          scores + (head - first_head) * scores_per_head});
      }
      for (int64_t head = first_head; head < last_head; ++head) {
        for (int64_t j = unseen; j < keys; ++j) rows[j] = v.row(key + j, head);
        for (int64_t quad = 0; quad < quads_; ++quad) {
          float* from = scores + (head - first_head) * scores_per_head + (quad * kDecodeKeys + unseen) * kQuad;
          add_block({from, rows + unseen, keys - unseen, head_size_, dtype, rule, panels}, state(split, head, quad));
        }
      }
    }
  }

  // What the weighted values of a head are multiplied by where a sink has a share of the weights.
  static float with_sink(const QuadState& head, int64_t h, float sink) {
    float largest = std::max(head.largest[h], sink), keep = vexp(head.largest[h] - largest);
    return keep / (head.weights[h] * keep + vexp(sink - largest));
  }

  // Combines the splits of a sequence, always in the same order, into the first.
  void finish(int64_t s, int64_t kv_head) const {
    const SequencePlan& plan = plans_[s];
    for (int64_t i = 1; i < plan.splits; ++i)
      for (int64_t quad = 0; quad < quads_; ++quad)
        merge_state(state(plan.split_start + i, kv_head, quad), state(plan.split_start, kv_head, quad), head_size_);
    with_float(args_.out.dtype(), [&]<class T>(T) {
      for (int64_t i = 0; i < group_; ++i) {
        T* out = reinterpret_cast<T*>(row(args_.out, s, kv_head * group_ + i));
        if (plan.splits == 0) {  // no keys: zero
          for (int64_t d = 0; d < head_size_; ++d) store(out[d], 0.0f);
          continue;
        }
        QuadState whole = state(plan.split_start, kv_head, i / kQuad);
        float factor = 1 / whole.weights[i % kQuad];
        if (args_.sinks) factor = with_sink(whole, i % kQuad, args_.sinks->ptr<float>()[kv_head * group_ + i]);
        for (int64_t d = 0; d < head_size_; ++d) store(out[d], whole.sum(i % kQuad, d) * factor);
      }
    });
  }

  Context& ctx_;
  const DecodeKernel& kernel_;
  const FlashAttnDecode::Init& init_;
  const DecodeArgs& args_;
  const int64_t head_size_, kv_heads_, group_, quads_, sequences_, query_bytes_, state_width_;

  SequencePlan* plans_ = nullptr;
  int64_t splits_ = 0, scratch_bytes_ = 0;
  float* states_ = nullptr;
  std::byte *queries_ = nullptr, *scratch_ = nullptr;
};

}  // namespace

void decode_attention(Context& ctx, const DecodeKernel& kernel, const FlashAttnDecode::Init& init,
                      const DecodeArgs& args) {
  Decode(ctx, kernel, init, args).run();
}

std::string_view refuse_decode(const FlashAttnDecode::Init& init, Args args) {
  if (init.num_kv_heads <= 0 || init.num_heads % init.num_kv_heads != 0)
    return "num_heads must be a multiple of num_kv_heads";
  if (init.num_heads / init.num_kv_heads > kMaxGroup) return "it takes at most 256 query heads per kv head";
  if (!std::has_single_bit(static_cast<uint64_t>(args[1]->size(1)))) return "pages must hold a power of two of tokens";
  for (size_t i : {3u, 4u})
    if (args[i]->dtype() != DType::kI32 || !args[i]->rows_contiguous())
      return "its tables must be i32 with contiguous rows";
  return refuse_floats({&args[0], &args[1], &args[2], &args[5]});
}

}  // namespace fk
