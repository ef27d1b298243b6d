// The part of a layer that one rank of a tensor-parallel group has, divided as in vLLM.
#pragma once

#include <cstdint>
#include <string_view>

namespace fk {

// total / tp_size; throws Error if there is a remainder. `what` is a plural: "attention heads".
int64_t rank_share(int64_t total, int64_t tp_size, std::string_view what);

// Key and value heads of a rank: with more ranks than heads, ranks share one. Throws where neither divides the other.
int64_t rank_kv_heads(int64_t total, int64_t tp_size);

// Rows of the vocabulary on a rank: all with one rank, else a share of the vocabulary padded to a multiple of 64.
int64_t rank_vocab(int64_t vocab_size, int64_t tp_size);

}  // namespace fk
