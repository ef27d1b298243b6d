#include "graph/view_relation.h"

#include <algorithm>

namespace fk {
namespace {

struct StridedDim {
  int64_t size, stride;
};

// Without dimensions of one element, whose strides mean nothing.
std::vector<StridedDim> long_dims(const View& view) {
  std::vector<StridedDim> dims;
  for (int d = 0; d < view.rank(); ++d)
    if (view.size(d) != 1) dims.push_back({view.size(d), view.stride(d)});
  return dims;
}

// A view as rows of contiguous bytes: where each starts, from the first one, and how long each is.
struct ByteRows {
  int64_t first, length;
  std::vector<StridedDim> outer;  // in bytes

  int64_t count() const {
    int64_t n = 1;
    for (const StridedDim& d : outer) n *= d.size;
    return n;
  }
  int64_t start(int64_t row) const {
    int64_t at = first;
    for (auto d = outer.rbegin(); d != outer.rend(); ++d) {
      at += row % d->size * d->stride;
      row /= d->size;
    }
    return at;
  }
};

// The byte behind the last element.
int64_t end_of(const View& view) {
  int64_t last = 0;
  for (int d = 0; d < view.rank(); ++d) last += (view.size(d) - 1) * view.stride(d);
  return reinterpret_cast<int64_t>(view.data()) + (last + 1) * static_cast<int64_t>(dtype_size(view.dtype()));
}

ByteRows byte_rows(const View& view) {
  auto element = static_cast<int64_t>(dtype_size(view.dtype()));
  std::vector<StridedDim> dims = long_dims(view);
  ByteRows rows{reinterpret_cast<int64_t>(view.data()), element, {}};
  while (!dims.empty() && dims.back().stride * element == rows.length) {
    rows.length *= dims.back().size;
    dims.pop_back();
  }
  for (const StridedDim& d : dims) rows.outer.push_back({d.size, d.stride * element});
  return rows;
}

// Whether `begin .. end` meets one of the rows.
bool meets(const ByteRows& rows, int64_t begin, int64_t end) {
  if (rows.outer.size() == 1) {  // rows at a fixed distance: only those around the beginning can meet it
    const StridedDim& d = rows.outer[0];
    int64_t near = std::clamp<int64_t>((begin - rows.first) / d.stride, 0, d.size - 1);
    for (int64_t i = near; i < std::min(near + 2, d.size); ++i)
      if (rows.start(i) < end && begin < rows.start(i) + rows.length) return true;
    return false;
  }
  for (int64_t i = 0; i < rows.count(); ++i)
    if (rows.start(i) < end && begin < rows.start(i) + rows.length) return true;
  return false;
}

// The index in each dimension of the element this far from the first. False where there is no element.
bool index_at(const View& view, int64_t offset, std::vector<int64_t>& index) {
  index.assign(static_cast<size_t>(view.rank()), 0);
  for (int d = 0; d < view.rank(); ++d) {
    if (view.size(d) == 1) continue;
    int64_t i = offset / view.stride(d);
    if (i >= view.size(d)) return false;
    index[static_cast<size_t>(d)] = i;
    offset -= i * view.stride(d);
  }
  return offset == 0;
}

// Whether the elements of a box, in order, are those of the part: dimensions are grouped so that both have the same
// number of elements in a group, and inside a group the box has no gaps.
bool same_elements(const std::vector<StridedDim>& box, const std::vector<StridedDim>& part) {
  size_t i = 0, j = 0;
  while (i < box.size() && j < part.size()) {
    size_t first_i = i, first_j = j;
    int64_t a = box[i].size, b = part[j].size;
    while (a != b) {
      if (a < b) {
        if (++i == box.size()) return false;
        a *= box[i].size;
      } else {
        if (++j == part.size()) return false;
        b *= part[j].size;
      }
    }
    for (size_t k = first_i; k < i; ++k)
      if (box[k].stride != box[k + 1].size * box[k + 1].stride) return false;
    int64_t stride = box[i].stride;
    for (size_t k = j + 1; k-- > first_j;) {
      if (part[k].stride != stride) return false;
      stride *= part[k].size;
    }
    ++i;
    ++j;
  }
  return i == box.size() && j == part.size();
}

}  // namespace

bool views_overlap(const View& a, const View& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  // A trace asks this of every pair of values in a body, and nearly all of them are far apart.
  if (reinterpret_cast<int64_t>(a.data()) >= end_of(b) || reinterpret_cast<int64_t>(b.data()) >= end_of(a))
    return false;
  ByteRows rows = byte_rows(a), others = byte_rows(b);
  if (rows.count() > others.count()) std::swap(rows, others);
  for (int64_t i = 0; i < rows.count(); ++i)
    if (meets(others, rows.start(i), rows.start(i) + rows.length)) return true;
  return false;
}

bool ViewBox::is_whole(const View& whole) const {
  for (int d = 0; d < whole.rank(); ++d)
    if (lengths[static_cast<size_t>(d)] != whole.size(d)) return false;
  return true;
}

std::optional<ViewBox> box_of(const View& whole, const View& part) {
  if (whole.dtype() != part.dtype() || whole.device() != part.device() || part.numel() == 0) return std::nullopt;
  auto element = static_cast<int64_t>(dtype_size(whole.dtype()));
  int64_t bytes = reinterpret_cast<int64_t>(part.data()) - reinterpret_cast<int64_t>(whole.data());
  if (bytes < 0 || bytes % element != 0) return std::nullopt;
  int64_t first = bytes / element, last = first;
  for (int d = 0; d < part.rank(); ++d) last += (part.size(d) - 1) * part.stride(d);
  std::vector<int64_t> starts, ends;
  if (!index_at(whole, first, starts) || !index_at(whole, last, ends)) return std::nullopt;
  ViewBox box{starts, {}};
  std::vector<StridedDim> dims;
  int64_t count = 1;
  for (int d = 0; d < whole.rank(); ++d) {
    int64_t length = ends[static_cast<size_t>(d)] - starts[static_cast<size_t>(d)] + 1;
    if (length < 1) return std::nullopt;
    box.lengths.push_back(length);
    count *= length;
    if (length > 1) dims.push_back({length, whole.stride(d)});
  }
  if (count != part.numel() || !same_elements(dims, long_dims(part))) return std::nullopt;
  return box;
}

}  // namespace fk
