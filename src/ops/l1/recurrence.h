// What operators with recurrent states share: which tokens a sequence has, where its state lies, what calls they
// refuse.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/tensor.h"
#include "ops/workload.h"

namespace fk {

struct RecurrentSequence {
  int64_t first, last;  // its tokens
  int64_t slot;         // negative: it starts from zeros and keeps nothing
};

// Sequence s of a call with or without cu_seqlens; without, sequence s has token s.
inline RecurrentSequence recurrent_sequence(const View& state_slots, const OptView& cu_seqlens, int64_t s) {
  auto slot = static_cast<int64_t>(get(state_slots, s));
  if (!cu_seqlens) return {s, s + 1, slot};
  return {static_cast<int64_t>(get(*cu_seqlens, s)), static_cast<int64_t>(get(*cu_seqlens, s + 1)), slot};
}

// Whether a workload's call has cu_seqlens: without, every sequence has one token, so any other batch needs it.
inline bool needs_offsets(const Workload& w) {
  return w.optional_inputs ||
         std::any_of(w.sequences.begin(), w.sequences.end(), [](const Sequence& s) { return s.query_len != 1; });
}

// Why a state [slots, ...] and its tables cannot be used; empty if they can. The entries of a state are dense, but may
// lie apart.
inline std::string_view refuse_state(const View& state, const View& state_slots, const OptView& cu_seqlens,
                                     int64_t tokens) {
  if (state.size(0) > 0 && !state.select(0, 0).contiguous()) return "the entries of a state must be without gaps";
  if (state_slots.dtype() != DType::kI32 || !state_slots.contiguous()) return "state_slots must be i32, without gaps";
  if (cu_seqlens && (cu_seqlens->dtype() != DType::kI32 || !cu_seqlens->contiguous()))
    return "cu_seqlens must be i32, without gaps";
  if (!cu_seqlens && state_slots.size(0) != tokens) return "without cu_seqlens every sequence has one token";
  return {};
}

inline double softplus_of(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
inline double silu_of(double x) { return x / (1 + std::exp(-x)); }

}  // namespace fk
