// The context of a forward pass: threads, scratch memory, the paged KV cache, the attention metadata, the other ranks.
#pragma once

#include <cstdint>
#include <span>

#include "core/memory.h"
#include "core/tensor.h"
#include "core/thread_pool.h"
#include "ops/state.h"

namespace fk {

// One kind of sequences (decoding or prefilling) of a batch. Offsets count from the first token of that kind.
struct SequenceGroup {
  int64_t num_sequences = 0;
  int64_t num_tokens = 0;
  View cu_seqlens_q;  // i32 [S+1]: where each sequence's new tokens start
  View cu_seqlens_k;  // i32 [S+1]: running sum of seq_lens
  View seq_lens;      // i32 [S]: keys each sequence has, the new tokens included
  View block_table;   // i32 [S, n]: which block of the per-token states holds the i-th page of tokens
  View state_slots;   // i32 [S]: which slot of the per-sequence states is each sequence's; negative: it has none
};

// Tokens of a batch are ordered: sequences that decode (one new token each) first, then those that prefill.
struct AttentionMetadata {
  SequenceGroup decode;
  SequenceGroup prefill;
  View slot_mapping;  // i64 [T]: block * page size + offset where a token's entry goes; negative: nowhere
  int64_t page_size = kDefaultPageSize;  // tokens a block of the per-token states holds, as their shape says too

  int64_t num_tokens() const { return decode.num_tokens + prefill.num_tokens; }
};

class Communicator;
class Node;
struct Context;

// Called before every operator call: records real runs, and finds shapes without running kernels.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // False: skip the call and leave its outputs unchanged.
  virtual bool before_call(const Node& node, const Context& ctx, std::span<const OptView> args) = 0;
};

struct Context {
  ThreadPool& pool;
  Arena& arena;
  const AttentionMetadata* attention = nullptr;
  std::span<const View> states = {};  // of the whole tree, as collect_states lists them
  CallObserver* observer = nullptr;
  void* stream = nullptr;                // DeviceRuntime::stream() of the device the call runs on; nothing on the CPU
  Communicator* communicator = nullptr;  // of the ranks that run this model together; nullptr: this rank is alone
};

}  // namespace fk
