#include "engine/ngram_index.h"

#include <algorithm>
#include <bit>

namespace fk {
namespace {

// Places that are compared for the longest match; more take time and seldom give a longer one.
constexpr int kMostPlaces = 32;

}  // namespace

size_t NgramIndex::bucket(std::span<const int64_t> ngram) const {
  uint64_t h = 0;
  for (int64_t token : ngram) {
    h = (h ^ static_cast<uint64_t>(token)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
  }
  return h & (newest_.size() - 1);
}

// n-grams of this length that end before `end`, from the first that is not there yet.
void NgramIndex::add(std::span<const int64_t> tokens, int64_t length, int64_t end) {
  if (std::ssize(newest_) < end) {  // with more buckets than positions chains of different n-grams stay short
    newest_.assign(std::bit_ceil(static_cast<size_t>(2 * end)), -1);
    previous_.clear();
  }
  for (int64_t at = std::ssize(previous_); at < end; ++at) {
    if (at < length - 1) {
      previous_.push_back(-1);
      continue;
    }
    int32_t& head = newest_[bucket(tokens.subspan(static_cast<size_t>(at - length + 1), static_cast<size_t>(length)))];
    previous_.push_back(head);
    head = static_cast<int32_t>(at);
  }
}

void NgramIndex::guess(std::span<const int64_t> tokens, const SpeculativeOptions& options, int64_t count,
                       std::vector<int64_t>& drafts) {
  const int64_t shortest = options.prompt_lookup_min, known = std::ssize(tokens);
  if (count <= 0 || known <= shortest) return;
  // The last n-gram is what is looked up; it enters when a token follows it.
  add(tokens, shortest, known - 1);
  auto at = [&](int64_t position) { return tokens[static_cast<size_t>(position)]; };
  int64_t longest = shortest - 1, place = -1;
  int64_t candidate = newest_[bucket(tokens.last(static_cast<size_t>(shortest)))];
  for (int tries = 0; candidate >= 0 && tries < kMostPlaces && longest < options.prompt_lookup_max; ++tries) {
    const int64_t most = std::min(options.prompt_lookup_max, candidate + 1);
    int64_t equal = 0;
    while (equal < most && at(candidate - equal) == at(known - 1 - equal)) ++equal;
    if (equal > longest) {
      longest = equal;
      place = candidate;
    }
    candidate = previous_[static_cast<size_t>(candidate)];
  }
  if (place < 0) return;
  const size_t first = drafts.size();
  for (int64_t from = place + 1; from < place + 1 + count; ++from)
    drafts.push_back(from < known ? at(from) : drafts[first + static_cast<size_t>(from - known)]);
}

}  // namespace fk
