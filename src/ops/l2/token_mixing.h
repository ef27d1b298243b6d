// ShiftedTokens: token_shift over the decoding and the prefilling sequences of a batch.
#pragma once

#include "ops/l1/token_shift.h"
#include "ops/l2/batched_recurrence.h"
#include "ops/op.h"

namespace fk {

class ShiftedTokens {
 public:
  ShiftedTokens(Builder& builder, int64_t hidden_size)
      : token_shift_(builder.child<TokenShift>("token_shift", {.hidden_size = hidden_size})) {}

  // x [T, D] -> [T, D]: the token before minus the token.
  View operator()(Context& ctx, const View& state, const View& x) const {
    View out = ctx.arena.make(x.spec());
    for_groups(*ctx.attention, [&](int64_t begin, int64_t count, const SequenceGroup& group, bool decoding) {
      token_shift_.into(ctx, x.narrow(0, begin, count), state, group.state_slots,
                        decoding ? OptView() : OptView(group.cu_seqlens_q), out.narrow(0, begin, count));
    });
    return out;
  }

 private:
  Op<TokenShift> token_shift_;
};

}  // namespace fk
