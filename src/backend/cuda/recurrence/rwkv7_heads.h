// What RWKV 7 computes between the first products of its time mixing and the last: everything in it belongs to a head.
#pragma once

#include <array>
#include <string_view>

#include "ops/forward_context.h"

namespace fk::cuda {

// The second matrix of a low-rank pair, [D, rank], and its bias.
struct LowRankUp {
  OptView weight = {}, bias = {};

  int64_t rank() const { return weight ? weight->size(1) : 0; }
};

struct Rwkv7Heads {
  View r, k, v;                     // [T, D]
  View low;                         // [T, R]: what the first matrices of the pairs give, in the order of `up`
  OptView v_first;                  // [T, D], where there is a pair for it
  std::array<LowRankUp, 4> up;      // of decay, rate, output gate, value gate
  View k_k, k_a, r_k, norm_weight;  // D elements each
  OptView norm_bias;
  View state;  // f32 [slots, H, head_dim, head_dim]
  View out;    // [T, D]
  double key_eps = 0, norm_eps = 0;

  int64_t heads() const { return state.size(1); }
  int64_t head_dim() const { return state.size(2); }
};

// Why such a call is not supported; empty if it is. Results and states are not looked at.
std::string_view refuse_rwkv7_heads(const Rwkv7Heads& call, int64_t head_dim);
// For all sequences of a batch.
void run_rwkv7_heads(const Rwkv7Heads& call, const AttentionMetadata& batch, void* stream);

}  // namespace fk::cuda
