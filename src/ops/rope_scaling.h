// RopeScaling: how rotary frequencies are scaled for contexts longer than in the original training.
#pragma once

#include <cstdint>
#include <string>

namespace fk {

struct RopeScaling {
  std::string type = "default";  // "default" (none), "linear", "llama3", "yarn", "proportional"
  double factor = 1;
  // llama3 only: wavelengths shorter than original/high_freq_factor stay, longer than original/low_freq_factor are
  // divided by factor, and those between are blended.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
  // yarn only: pairs that turn more than beta_fast times in the original context stay, those that turn less than
  // beta_slow times are divided by factor, and those between are blended by their index; `truncate` rounds the indices
  // where that begins and ends. Sines and cosines are multiplied by attention_factor.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  double attention_factor = 1;
  // proportional only: the share of the pairs that are rotated, the first ones; the frequencies are those of whole
  // heads, divided by factor.
  double partial_rotary_factor = 1;

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("type", type);
    v("factor", factor);
    v("low_freq_factor", low_freq_factor);
    v("high_freq_factor", high_freq_factor);
    v("original_max_position_embeddings", original_max_position_embeddings);
    v("beta_fast", beta_fast);
    v("beta_slow", beta_slow);
    v("truncate", truncate);
    v("attention_factor", attention_factor);
    v("partial_rotary_factor", partial_rotary_factor);
  }
};

}  // namespace fk
