#include "models/rank_slices.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/error.h"
#include "models/convert.h"
#include "ops/l2/tensor_parallel.h"

namespace fk {
namespace {

int64_t columns_of(const Shape& shape) { return shape.rank() < 2 ? 1 : shape[-1]; }

// The rows of each matrix in a parameter.
std::vector<int64_t> parts_of(const ParamSpec& param) {
  const Shape& shape = param.spec.shape;
  if (!param.part_rows.empty()) return param.part_rows;
  if (shape.rank() == 3) return std::vector<int64_t>(static_cast<size_t>(shape[0]), shape[1]);
  return {shape.rank() == 0 ? 1 : shape.numel() / columns_of(shape)};
}

[[noreturn]] void throw_indivisible(const ParamSpec& whole, const ParamSpec& mine, int64_t ranks) {
  throw Error("The parameter {} of shape {} cannot be divided over {} ranks to {} each; use --tp 1.", whole.name,
              whole.spec.shape.str(), ranks, mine.spec.shape.str());
}

// Of `whole` rows, the first of the `mine` that this rank holds, and how many of them there are.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
};

Share share_of_rows(int64_t whole, int64_t mine, int64_t rank, int64_t ranks, bool alone) {
  if (mine == whole) return {0, whole};
  if (mine * ranks == whole) return {rank * mine, mine};
  // With more ranks than key and value heads, several ranks hold the same head.
  if (mine > 0 && whole % mine == 0 && ranks % (whole / mine) == 0)
    return {rank / (ranks / (whole / mine)) * mine, mine};
  if (alone && mine == rank_vocab(whole, ranks)) {
    int64_t first = std::min(rank * mine, whole);
    return {first, std::min(mine, whole - first)};
  }
  return {-1, 0};
}

}  // namespace

RankSlices rank_slices(const std::vector<ParamSpec>& whole, const std::vector<ParamSpec>& mine, int64_t rank,
                       int64_t ranks) {
  FK_CHECK(rank >= 0 && rank < ranks);
  std::map<std::string, const ParamSpec*> held;
  for (const ParamSpec& param : mine) held.emplace(param.name, &param);
  RankSlices slices;
  for (const ParamSpec& param : whole) {
    auto found = held.find(param.name);
    if (found == held.end()) {
      slices[param.name].held = false;
      continue;
    }
    const ParamSpec& part = *found->second;
    if (part.spec.shape == param.spec.shape && part.part_rows == param.part_rows) continue;
    // Codes and scales of such formats are not stored row by row.
    if (param.fill)
      throw Error("Weights in the format of {} cannot be divided over {} ranks yet; use --tp 1.", param.name, ranks);
    std::vector<int64_t> whole_rows = parts_of(param), rows = parts_of(part);
    if (whole_rows.size() != rows.size()) throw_indivisible(param, part, ranks);
    RankSlice slice{
        .spec = part.spec, .whole_columns = columns_of(param.spec.shape), .columns = columns_of(part.spec.shape)};
    if (slice.columns != slice.whole_columns) {
      if (slice.columns * ranks != slice.whole_columns) throw_indivisible(param, part, ranks);
      slice.first_column = rank * slice.columns;
    }
    int64_t from = 0, to = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      Share share = share_of_rows(whole_rows[i], rows[i], rank, ranks, rows.size() == 1);
      if (share.first < 0) throw_indivisible(param, part, ranks);
      if (share.count > 0) slice.rows.push_back({from + share.first, to, share.count});
      from += whole_rows[i];
      to += rows[i];
    }
    slices.emplace(param.name, std::move(slice));
  }
  return slices;
}

void copy_slice(const View& whole_rows, int64_t first_row, const RankSlice& slice, const View& to, ThreadPool& pool) {
  FK_CHECK(whole_rows.contiguous() && to.contiguous());
  const int64_t rows = whole_rows.numel() / slice.whole_columns;
  const auto from_size = static_cast<int64_t>(dtype_size(whole_rows.dtype())),
             to_size = static_cast<int64_t>(dtype_size(to.dtype()));
  const auto* source = static_cast<const std::byte*>(whole_rows.data());
  auto* target = static_cast<std::byte*>(to.data());
  const bool whole_width = slice.columns == slice.whole_columns;
  for (const RankSlice::Rows& piece : slice.rows) {
    int64_t begin = std::max(piece.from, first_row), end = std::min(piece.from + piece.count, first_row + rows);
    if (begin >= end) continue;
    auto copy_rows = [&](int64_t first, int64_t last) {
      // Where columns are left out, row by row.
      int64_t step = whole_width ? last - first : 1;
      for (int64_t r = first; r < last; r += step) {
        const std::byte* at = source + ((r - first_row) * slice.whole_columns + slice.first_column) * from_size;
        std::byte* out = target + (piece.to + r - piece.from) * slice.columns * to_size;
        const int64_t elements = step * slice.columns;
        if (whole_rows.dtype() == to.dtype())
          std::memcpy(out, at, static_cast<size_t>(elements * to_size));
        else
          convert_elements(at, whole_rows.dtype(), out, to.dtype(), elements);
      }
    };
    int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / (slice.columns * to_size));
    pool.parallel_for(end - begin, grain, [&](int64_t first, int64_t last) { copy_rows(begin + first, begin + last); });
  }
}

}  // namespace fk
