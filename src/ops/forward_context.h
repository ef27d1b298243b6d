// The context of a forward pass: threads, scratch memory, the paged KV cache and the attention metadata.
#pragma once

#include <cstdint>
#include <span>

#include "core/memory.h"
#include "core/tensor.h"
#include "core/thread_pool.h"

namespace fk {

inline constexpr int64_t kBlockSize = 16;  // tokens a block of the KV cache holds

// Keys and values of one layer, each [blocks, kBlockSize, K, Dh].
struct KvLayer {
  View key;
  View value;
};

// One kind of sequences (decoding or prefilling) of a batch. Offsets count from the first token of that kind.
struct SequenceGroup {
  int64_t num_sequences = 0;
  int64_t num_tokens = 0;
  View cu_seqlens_q;  // i32 [S+1]: where each sequence's new tokens start
  View cu_seqlens_k;  // i32 [S+1]: running sum of seq_lens
  View seq_lens;      // i32 [S]: keys each sequence has, the new tokens included
  View block_table;   // i32 [S, blocks]: which block holds keys 16 i .. 16 i + 15
};

// Tokens of a batch are ordered: sequences that decode (one new token each) first, then those that prefill.
struct AttentionMetadata {
  SequenceGroup decode;
  SequenceGroup prefill;
  View slot_mapping;  // i64 [T]: block * kBlockSize + offset where a token's key and value go

  int64_t num_tokens() const { return decode.num_tokens + prefill.num_tokens; }
};

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
  std::span<const KvLayer> kv_cache = {};  // by layer index
  CallObserver* observer = nullptr;
  void* stream = nullptr;  // DeviceRuntime::stream() of the device the call runs on; nothing on the CPU
};

}  // namespace fk
