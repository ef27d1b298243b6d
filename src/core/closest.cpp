#include "core/closest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace fk {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> closest_names(std::string_view name, std::span<const std::string> names, size_t most) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& other : names) {
    bool part = name.size() >= 3 && other.find(name) != std::string::npos;
    size_t distance = part ? 1 : edit_distance(name, other);
    if (distance <= std::max<size_t>(2, name.size() / 3)) near.emplace_back(distance, other);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> found;
  for (size_t i = 0; i < near.size() && i < most; ++i) found.push_back(near[i].second);
  return found;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> names) {
  std::vector<std::string> near = closest_names(name, names);
  return near.empty() ? ";" : fmt::format(", did you mean {}?", fmt::join(near, " or "));
}

}  // namespace fk
