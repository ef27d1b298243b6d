// LogitEdits: what a request changes in the logits of single tokens before the next one is drawn: penalties for tokens
// that occurred, a bias, and stop tokens that must not be drawn yet.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampling_params.h"

namespace fk {

struct LogitEdit {
  int64_t token = 0;
  int32_t count = 0;       // how often it was drawn
  bool in_prompt = false;  // only noted where a penalty counts it
  bool masked = false;     // must not be drawn
  float bias = 0;
};

class LogitEdits {
 public:
  LogitEdits() = default;
  // Tokens in `masked` must not be drawn until unmask().
  LogitEdits(const SamplingParams& params, std::span<const int64_t> prompt, std::span<const int64_t> masked);

  void drawn(int64_t token);
  void unmask();

  std::span<const LogitEdit> entries() const { return entries_; }  // of different tokens
  bool empty() const { return entries_.empty(); }

 private:
  LogitEdit& entry(int64_t token);

  bool counts_ = false;  // a penalty needs to know what was drawn
  std::vector<LogitEdit> entries_;
  std::unordered_map<int64_t, size_t> places_;  // by token, in entries_
};

}  // namespace fk
