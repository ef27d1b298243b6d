#include "graph/trace_scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "ops/registry.h"

namespace fk {
namespace {

std::vector<SymbolicSize> as_sizes(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

std::vector<int64_t> extents_of(const View& view) {
  return {view.shape().extents().begin(), view.shape().extents().end()};
}

}  // namespace

void TraceLeaves::add(TraceLeaf leaf) {
  by_address_.emplace(leaf.view.data(), leaves_.size());
  by_name_.emplace(leaf.name, leaves_.size());
  leaves_.push_back(std::move(leaf));
}

const TraceLeaf* TraceLeaves::at(const View& view) const {
  auto after = by_address_.upper_bound(view.data());
  if (after == by_address_.begin()) return nullptr;
  const TraceLeaf& leaf = leaves_[std::prev(after)->second];
  return box_of(leaf.view, view) ? &leaf : nullptr;
}

const TraceLeaf* TraceLeaves::named(const std::string& name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &leaves_[found->second];
}

TraceScope::TraceScope(const Node& node, const TraceLeaves& leaves) : node_(&node), leaves_(&leaves) {
  body_.op = node.info().name;
  body_.level = node.info().level;
  body_.init = node.init();
}

std::string TraceScope::relative(const std::string& path) const {
  const std::string& own = node_->path();
  if (own.empty()) return path;
  if (path == own) return {};
  if (!path.starts_with(own + "."))
    throw Error("{} at '{}' uses '{}', which belongs to another operator; pass it as an argument.", body_.op, own,
                path);
  return path.substr(own.size() + 1);
}

ValueId TraceScope::add_value(ValueKind kind, std::string name, const View& like) {
  body_.values.push_back({kind, std::move(name), like.dtype(), as_sizes(extents_of(like))});
  return static_cast<ValueId>(body_.values.size() - 1);
}

void TraceScope::add_argument(const std::string& name, const View& view, bool updated) {
  ValueId id = add_value(ValueKind::kArgument, name, view);
  body_.inputs.push_back(id);
  written_.push_back({id, view, !updated});
}

ValueId TraceScope::add_leaf(const TraceLeaf& leaf) {
  ValueId id = add_value(leaf.kind, leaf.kind == ValueKind::kBatch ? leaf.name : relative(leaf.name), leaf.view);
  body_.inputs.push_back(id);
  written_.push_back({id, leaf.view, leaf.kind != ValueKind::kState});
  used_.push_back(&leaf);
  return id;
}

bool TraceScope::updated(const TraceLeaf& leaf) const {
  for (auto w = written_.rbegin(); w != written_.rend(); ++w)
    if (views_overlap(w->view, leaf.view)) return value(w->value).kind == ValueKind::kResult;
  return false;
}

ValueId TraceScope::made_by(GraphNode node, const std::vector<int64_t>& shape, DType dtype) {
  std::vector<SymbolicSize> sizes = as_sizes(shape);
  for (const GraphNode& known : body_.nodes)
    if (known.kind == node.kind && known.inputs == node.inputs && known.starts == node.starts &&
        value(known.outputs[0].value).shape == sizes)
      return known.outputs[0].value;
  body_.values.push_back({ValueKind::kResult, "", dtype, std::move(sizes)});
  auto id = static_cast<ValueId>(body_.values.size() - 1);
  node.outputs = {{"out", id}};
  body_.nodes.push_back(std::move(node));
  return id;
}

ValueId TraceScope::reshaped(ValueId from, const View& like) {
  std::vector<int64_t> shape = extents_of(like);
  if (value(from).shape == as_sizes(shape)) return from;
  return made_by({.kind = GraphNode::Kind::kReshape, .inputs = {{"x", from}}}, shape, like.dtype());
}

ValueId TraceScope::sliced(const Written& from, const ViewBox& box, const View& view) {
  ValueId id = from.value;
  if (!box.is_whole(from.view))
    id = made_by({.kind = GraphNode::Kind::kSlice, .starts = as_sizes(box.starts), .inputs = {{"x", id}}}, box.lengths,
                 view.dtype());
  return reshaped(id, view);
}

std::optional<ValueId> TraceScope::part_of_heads(const Written& from, const View& view) {
  if (view.rank() < 2 || from.view.rank() + 1 != view.rank()) return std::nullopt;
  // The heads are `stride` columns wide and begin at a multiple of that.
  const int64_t heads = view.size(-2), stride = view.stride(view.rank() - 2), row = from.view.size(-1);
  const int64_t bytes = reinterpret_cast<int64_t>(view.data()) - reinterpret_cast<int64_t>(from.view.data());
  if (heads == 0 || stride <= 0 || row == 0 || bytes < 0) return std::nullopt;
  const int64_t first = bytes / static_cast<int64_t>(dtype_size(view.dtype()));
  const int64_t row_stride = from.view.rank() > 1 ? from.view.stride(from.view.rank() - 2) : row;
  if (row_stride < row) return std::nullopt;
  const int64_t column = first % row_stride;
  const int64_t begin = column / stride * stride;
  if (begin + heads * stride > row) return std::nullopt;
  View columns = from.view.narrow(from.view.rank() - 1, begin, heads * stride),
       split = columns.split_last(heads, stride);
  std::optional<ViewBox> all = box_of(from.view, columns), box = box_of(split, view);
  if (!all || !box) return std::nullopt;
  return sliced({sliced(from, *all, split), split, from.fixed}, *box, view);
}

ValueId TraceScope::joined(const View& view, const std::string& reader) {
  struct Piece {
    int64_t start, rows;
    Written from;
  };
  std::vector<Piece> pieces;
  int64_t rows = 0;
  for (auto w = written_.rbegin(); w != written_.rend() && rows < view.size(0); ++w) {
    if (!views_overlap(w->view, view)) continue;
    std::optional<ViewBox> box = box_of(view, w->view);
    bool whole_rows = box.has_value();
    for (int d = 1; whole_rows && d < view.rank(); ++d)
      whole_rows = box->lengths[static_cast<size_t>(d)] == view.size(d);
    bool apart = whole_rows && std::none_of(pieces.begin(), pieces.end(),
                                            [&](const Piece& p) { return views_overlap(p.from.view, w->view); });
    if (!apart)
      throw Error(
          "{} is memory that several calls wrote, and not one after the other along its first dimension; give each "
          "result memory of its own.",
          reader);
    pieces.push_back({box->starts[0], box->lengths[0], *w});
    rows += box->lengths[0];
  }
  if (rows != view.size(0))
    throw Error("{} is memory of which only a part has been written; write all of it first.", reader);
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
  GraphNode concat{.kind = GraphNode::Kind::kConcat};
  for (const Piece& p : pieces)
    concat.inputs.push_back(
        {fmt::format("x{}", concat.inputs.size()), reshaped(p.from.value, view.narrow(0, p.start, p.rows))});
  return made_by(std::move(concat), extents_of(view), view.dtype());
}

ValueId TraceScope::read(const View& view, const std::string& reader) {
  for (auto w = written_.rbegin(); w != written_.rend(); ++w) {
    if (!views_overlap(w->view, view)) continue;
    if (std::optional<ViewBox> box = box_of(w->view, view)) return sliced(*w, *box, view);
    // By value: what a reshape adds may move the list.
    if (std::optional<ValueId> part = part_of_heads(Written(*w), view)) return *part;
    return joined(view, reader);
  }
  const TraceLeaf* leaf = leaves_->at(view);
  if (leaf == nullptr)
    throw Error("{} is memory that nothing in {}{} has written; pass it as an argument, or write it first.", reader,
                body_.op, node_->path().empty() ? "" : fmt::format(" at '{}'", node_->path()));
  ValueId id = add_leaf(*leaf);
  if (view.data() == leaf->view.data() && view.shape() == leaf->view.shape()) return id;
  return read(view, reader);
}

ValueId TraceScope::write(const View& view, const std::string& writer) {
  for (auto w = written_.rbegin(); w != written_.rend(); ++w)
    if (w->fixed && views_overlap(w->view, view))
      throw Error("{} overwrites '{}', an input of {}; write into memory of its own.", writer, value(w->value).name,
                  body_.op);
  ValueId id = add_value(ValueKind::kResult, "", view);
  written_.push_back({id, view, false});
  return id;
}

}  // namespace fk
