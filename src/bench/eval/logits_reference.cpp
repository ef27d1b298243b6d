#include "bench/eval/logits_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "core/input_file.h"
#include "core/output_file.h"
#include "core/rng.h"

namespace fk {
namespace {

constexpr uint64_t kMagic = 0x314c4156454b46;  // "FKEVAL1"
constexpr size_t kLargestFile = size_t{8} << 30;

float spread_of(std::span<const float> logits) {
  double sum = 0, squares = 0;
  for (float x : logits) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  auto n = static_cast<double>(logits.size());
  double variance = std::max(0.0, squares / n - (sum / n) * (sum / n));
  // Where all logits are equal, every difference is as large as it is.
  return variance > 0 ? static_cast<float>(std::sqrt(variance)) : 1;
}

size_t largest(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

float token_margin(std::span<const float> logits, int64_t token) {
  if (token < 0 || token >= static_cast<int64_t>(logits.size())) return std::nanf("");
  return (logits[largest(logits)] - logits[static_cast<size_t>(token)]) / spread_of(logits);
}

void LogitsReference::set(int64_t row, int64_t step, std::span<const float> logits, int64_t token) {
  Position& p = positions_[static_cast<size_t>(row * steps_ + step)];
  p.token = static_cast<int32_t>(token);
  p.spread = spread_of(logits);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  size_t top = std::min(kTop, logits.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
      [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  Stream random(seed_, "kept logits");
  auto first = static_cast<uint64_t>((row * steps_ + step) * static_cast<int64_t>(kRandom));
  for (size_t i = 0; i < kKept; ++i) {
    p.ids[i] = i < top ? order[i] : static_cast<int32_t>(random.below(first + i, logits.size()));
    p.values[i] = logits[static_cast<size_t>(p.ids[i])];
  }
}

std::vector<int64_t> LogitsReference::tokens(int64_t row) const {
  std::vector<int64_t> tokens;
  for (int64_t step = 0; step < steps_; ++step) tokens.push_back(token(row, step));
  return tokens;
}

void LogitsReference::compare(int64_t row, int64_t step, std::span<const float> logits, PositionErrors& errors) const {
  const Position& p = at(row, step);
  double squares = 0;
  for (size_t i = 0; i < kKept; ++i) {
    double difference = logits[static_cast<size_t>(p.ids[i])] - p.values[i];
    squares += difference * difference;
  }
  errors.errors.push_back(static_cast<float>(std::sqrt(squares / kKept) / p.spread));
  auto chosen = static_cast<int32_t>(largest(logits));
  float margin = 0;
  if (chosen != p.token) {
    // Below the most likely ones that are kept, the margin is at least theirs.
    size_t place = 0;
    while (place + 1 < kTop && p.ids[place] != chosen) ++place;
    margin = std::max((p.values[0] - p.values[place]) / p.spread, std::nextafter(0.0F, 1.0F));
  }
  errors.margins.push_back(margin);
}

void LogitsReference::write(const std::string& path) const {
  const uint64_t head[] = {kMagic, static_cast<uint64_t>(rows_), static_cast<uint64_t>(steps_), seed_};
  OutputFile file(path);
  file.write({reinterpret_cast<const char*>(head), sizeof head});
  file.write({reinterpret_cast<const char*>(positions_.data()), positions_.size() * sizeof(Position)});
  file.finish();
}

LogitsReference LogitsReference::read(const std::string& path) {
  std::string bytes = read_file(path, path, "; delete the run's folder and start again", kLargestFile);
  uint64_t head[4] = {};
  if (bytes.size() >= sizeof head) std::memcpy(head, bytes.data(), sizeof head);
  LogitsReference reference;
  if (head[0] == kMagic && (bytes.size() - sizeof head) / sizeof(Position) == head[1] * head[2]) {
    reference = {static_cast<int64_t>(head[1]), static_cast<int64_t>(head[2]), head[3]};
    if (bytes.size() == sizeof head + reference.positions_.size() * sizeof(Position)) {
      std::memcpy(reference.positions_.data(), bytes.data() + sizeof head, bytes.size() - sizeof head);
      return reference;
    }
  }
  throw Error("{} is no file of logits, or not all of it; delete the run's folder and start again.", path);
}

}  // namespace fk
