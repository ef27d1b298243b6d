#include "engine/logit_edits.h"

namespace fk {

LogitEdits::LogitEdits(const SamplingParams& params, std::span<const int64_t> prompt, std::span<const int64_t> masked)
    : counts_(params.repetition_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0) {
  for (auto [token, bias] : params.logit_bias) entry(token).bias += bias;
  for (int64_t token : masked) entry(token).masked = true;
  if (params.repetition_penalty != 1)
    for (int64_t token : prompt) entry(token).in_prompt = true;
}

LogitEdit& LogitEdits::entry(int64_t token) {
  auto [at, is_new] = places_.try_emplace(token, entries_.size());
  if (is_new) entries_.push_back({.token = token});
  return entries_[at->second];
}

void LogitEdits::drawn(int64_t token) {
  if (counts_) ++entry(token).count;
}

void LogitEdits::unmask() {
  bool changes_nothing = true;
  for (LogitEdit& edit : entries_) {
    edit.masked = false;
    changes_nothing = changes_nothing && edit.bias == 0 && edit.count == 0 && !edit.in_prompt;
  }
  if (!changes_nothing) return;
  entries_.clear();
  places_.clear();
}

}  // namespace fk
