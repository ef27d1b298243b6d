// LogitsReference: what is kept of the baseline's logits, position by position, to compare others with: the most likely
// tokens and a random choice of the rest. All logits of a long batch would not fit a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/eval/alignment.h"

namespace fk {

class LogitsReference {
 public:
  LogitsReference() = default;
  LogitsReference(int64_t rows, int64_t steps, uint64_t seed) : rows_(rows), steps_(steps), seed_(seed) {
    positions_.resize(static_cast<size_t>(rows * steps));
  }

  int64_t rows() const { return rows_; }
  int64_t steps() const { return steps_; }

  // The logits of one position; `token` is what was drawn from them.
  void set(int64_t row, int64_t step, std::span<const float> logits, int64_t token);
  int64_t token(int64_t row, int64_t step) const { return at(row, step).token; }
  std::vector<int64_t> tokens(int64_t row) const;

  // Adds how these logits differ from those kept.
  void compare(int64_t row, int64_t step, std::span<const float> logits, PositionErrors& errors) const;

  // Raw numbers of this machine's byte order. Throws Error where the file is none of these.
  void write(const std::string& path) const;
  static LogitsReference read(const std::string& path);

 private:
  static constexpr size_t kTop = 8, kRandom = 24, kKept = kTop + kRandom;
  struct Position {
    int32_t token = -1;
    float spread = 0;  // standard deviation of all its logits
    int32_t ids[kKept] = {};
    float values[kKept] = {};
  };
  const Position& at(int64_t row, int64_t step) const { return positions_[static_cast<size_t>(row * steps_ + step)]; }

  int64_t rows_ = 0, steps_ = 0;
  uint64_t seed_ = 0;
  std::vector<Position> positions_;
};

// The margin of a token: how far its logit is below the largest, relative to the spread of all.
float token_margin(std::span<const float> logits, int64_t token);

}  // namespace fk
