#include "validate/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "validate/index_words.h"
#include "validate/mismatch_pattern.h"

namespace fk {
namespace {

constexpr int64_t kMostCells = 32;  // along each side of the grid

std::string dimension_name(int dimension, int rank) {
  constexpr std::string_view kNames[] = {"block", "slot", "head", "column"};  // of a KV cache
  if (dimension == rank - 1) return rank == 1 ? "element" : "column";
  if (rank <= 3) return dimension == 0 ? "row" : "head";
  return rank == 4 ? std::string(kNames[dimension]) : fmt::format("index of dimension {}", dimension);
}

std::vector<DimensionOf> dimensions_of(const Shape& shape) {
  std::vector<DimensionOf> dimensions;
  int64_t stride = shape.numel();
  for (int d = 0; d < shape.rank(); ++d) {
    stride /= shape[d];
    dimensions.push_back({dimension_name(d, shape.rank()), shape[d], stride});
  }
  return dimensions;
}

// "All lie in head 3 of 8 and in columns 32 to 63, the last 32 of 64."
std::string place_sentence(const std::vector<uint8_t>& wrong, const std::vector<DimensionOf>& dimensions) {
  std::string places;
  for (const DimensionOf& d : dimensions) {
    std::vector<bool> chosen(static_cast<size_t>(d.size));
    for (size_t i = 0; i < wrong.size(); ++i)
      if (wrong[i] != 0) chosen[static_cast<size_t>(static_cast<int64_t>(i) / d.stride % d.size)] = true;
    if (std::string words = index_words(chosen, d.name); !words.empty())
      places += fmt::format("{}{}", places.empty() ? "" : " and in ", words);
  }
  return places.empty() ? "" : fmt::format("All lie in {}.", places);
}

std::vector<std::vector<double>> picture(const std::vector<uint8_t>& wrong, int64_t rows, int64_t cols) {
  int64_t down = std::min(rows, kMostCells), across = std::min(cols, kMostCells);
  std::vector<std::vector<double>> counts(static_cast<size_t>(down), std::vector<double>(static_cast<size_t>(across)));
  auto cell_of = [](int64_t at, int64_t size, int64_t cells) { return static_cast<size_t>(at * cells / size); };
  for (int64_t i = 0; i < rows * cols; ++i)
    if (wrong[static_cast<size_t>(i)] != 0) ++counts[cell_of(i / cols, rows, down)][cell_of(i % cols, cols, across)];
  auto size_of = [](int64_t cell, int64_t size, int64_t cells) {  // number of indexes that cell_of maps to a cell
    return ((cell + 1) * size + cells - 1) / cells - (cell * size + cells - 1) / cells;
  };
  for (int64_t r = 0; r < down; ++r)
    for (int64_t c = 0; c < across; ++c) {
      double& share = counts[static_cast<size_t>(r)][static_cast<size_t>(c)];
      share = std::round(1e4 * share / static_cast<double>(size_of(r, rows, down) * size_of(c, cols, across))) / 1e4;
    }
  return counts;
}

}  // namespace

std::optional<Mismatch> find_mismatch(const MismatchCause& cause) {
  const View& got = cause.got.view();
  const CallTruth::Item& item = cause.item;
  if (!(got.spec() == item.spec) || !got.contiguous() || got.numel() == 0) return std::nullopt;
  std::vector<uint8_t> wrong = wrong_elements(got, item.reference, item.bounds, item.before);
  if (std::count(wrong.begin(), wrong.end(), uint8_t{1}) == 0) return std::nullopt;
  Mismatch m;
  m.output = item.name;
  m.cols = got.rank() > 0 ? got.size(-1) : 1;
  m.rows = got.numel() / m.cols;
  m.grid = picture(wrong, m.rows, m.cols);
  std::vector<DimensionOf> dimensions = dimensions_of(got.shape());
  m.pattern = place_sentence(wrong, dimensions);
  std::string held =
      pattern_sentence({got, item.reference, item.bounds, wrong, dimensions, cause.poison, cause.earlier});
  if (!held.empty()) m.pattern += (m.pattern.empty() ? "" : " ") + held;
  return m;
}

Json to_json(const Mismatch& m) {
  return {{"output", m.output}, {"rows", m.rows}, {"cols", m.cols}, {"grid", m.grid}, {"pattern", m.pattern}};
}

}  // namespace fk
