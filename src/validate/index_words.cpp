#include "validate/index_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace fk {
namespace {

// The last `count` of `size` indexes are often the tail of a loop over whole vectors; names the vector widths with such
// a tail.
std::string tail_words(size_t size, size_t count) {
  std::vector<size_t> widths;
  for (size_t width = 4; width <= 256; width *= 2)
    if (size > width && size % width == count) widths.push_back(width);
  return widths.empty() ? "" : fmt::format(" (what is left after whole steps of {})", fmt::join(widths, " or "));
}

std::string range_words(size_t first, size_t last, size_t size, std::string_view name) {
  size_t count = last - first + 1;
  std::string place = count == 1 ? fmt::format("{} {}", name, first) : fmt::format("{}s {} to {}", name, first, last);
  std::string many = count == 1 ? "" : fmt::format(" {}", count);
  if (last + 1 == size) return fmt::format("{}, the last{} of {}{}", place, many, size, tail_words(size, count));
  if (first == 0) return fmt::format("{}, the first{} of {}", place, many, size);
  return fmt::format("{} of {}", place, size);
}

std::string ordinal(size_t n) {
  if (n == 2) return "second";
  if (n == 3) return "third";
  bool teen = n % 100 >= 11 && n % 100 <= 13;
  const char* ending = teen ? "th" : n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : n % 10 == 3 ? "rd" : "th";
  return fmt::format("{}{}", n, ending);
}

bool repeats_after(const std::vector<bool>& chosen, size_t period) {
  for (size_t i = 0; i + period < chosen.size(); ++i)
    if (chosen[i] != chosen[i + period]) return false;
  return true;
}

// Fewer repetitions may be chance.
constexpr size_t kRepetitions = 3;

std::string periodic_words(const std::vector<bool>& chosen, std::string_view name) {
  for (size_t period = 2; period * kRepetitions <= chosen.size(); ++period) {
    if (!repeats_after(chosen, period)) continue;
    auto begin = chosen.begin(), end = begin + static_cast<std::ptrdiff_t>(period);
    auto count = static_cast<size_t>(std::count(begin, end, true));
    auto first = static_cast<size_t>(std::find(begin, end, true) - begin), last = first + count - 1;
    if (count == 1) return fmt::format("every {} {}, from {} on", ordinal(period), name, first);
    bool together =
        last < period && std::all_of(begin + static_cast<std::ptrdiff_t>(first),
                                     begin + static_cast<std::ptrdiff_t>(last) + 1, [](bool c) { return c; });
    return together ? fmt::format("{}s {} to {} of every {}", name, first, last, period) : "";
  }
  return "";
}

}  // namespace

std::string index_words(const std::vector<bool>& chosen, std::string_view name) {
  std::vector<size_t> indexes;
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) indexes.push_back(i);
  if (indexes.empty() || indexes.size() == chosen.size()) return "";
  if (indexes.back() - indexes.front() + 1 == indexes.size())
    return range_words(indexes.front(), indexes.back(), chosen.size(), name);
  if (std::string words = periodic_words(chosen, name); !words.empty()) return words;
  constexpr size_t kListed = 4;
  bool more = indexes.size() > kListed;
  std::vector<size_t> listed(indexes.begin(),
                             indexes.begin() + static_cast<std::ptrdiff_t>(more ? kListed : indexes.size()));
  return fmt::format("{} of {} {}s ({}{})", indexes.size(), chosen.size(), name, fmt::join(listed, ", "),
                     more ? ", ..." : "");
}

}  // namespace fk
