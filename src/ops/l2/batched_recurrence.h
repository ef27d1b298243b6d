// BatchedRecurrence: the two forms of a rule of ops/l1/linear_recurrence.h over a batch. Decoding sequences take one
// token each, prefilling ones take theirs in chunks.
#pragma once

#include <functional>

#include "ops/l1/linear_recurrence.h"
#include "ops/op.h"

namespace fk {

// Calls step(first token, tokens, group) for the decoding and for the prefilling sequences that a batch has.
template <class Step>
void for_groups(const AttentionMetadata& batch, Step&& step) {
  if (batch.decode.num_tokens > 0) step(int64_t{0}, batch.decode.num_tokens, batch.decode, true);
  if (batch.prefill.num_tokens > 0) step(batch.decode.num_tokens, batch.prefill.num_tokens, batch.prefill, false);
}

template <class Chunk, class Recurrent>
class BatchedRecurrence {
 public:
  BatchedRecurrence(Builder& builder, const LinearRecurrenceInit& init)
      : init_(init),
        decode_(builder.child<Recurrent>("decode", init)),
        prefill_(builder.child<Chunk>("prefill", init)) {}

  // tokens: the token inputs of the rule, each [T, ...]. Returns [T, H, V].
  template <class... Tokens>
  View operator()(Context& ctx, const View& state, const View& first, const Tokens&... tokens) const {
    View out = ctx.arena.make({{first.size(0), init_.state_heads(), init_.head_v_dim}, first.dtype()});
    for_groups(*ctx.attention, [&](int64_t begin, int64_t count, const SequenceGroup& group, bool decoding) {
      auto part = [&](const View& x) { return x.narrow(0, begin, count); };
      if (decoding)
        decode_.into(ctx, part(first), part(tokens)..., state, group.state_slots, part(out));
      else
        prefill_.into(ctx, part(first), part(tokens)..., state, group.cu_seqlens_q, group.state_slots, part(out));
    });
    return out;
  }

 private:
  const LinearRecurrenceInit init_;
  Op<Recurrent> decode_;
  Op<Chunk> prefill_;
};

}  // namespace fk
