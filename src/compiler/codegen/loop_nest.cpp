#include "compiler/codegen/loop_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/item_order.h"

namespace fk {
namespace {

using algebra::Expr;
using algebra::ExprNode;
using algebra::Extents;
using algebra::Fold;
using algebra::Function;
using algebra::Head;
using algebra::Primitive;

constexpr int64_t kLargestLocalArray = 16384;  // elements; 64 KiB of a thread's stack
constexpr int64_t kLargestUnrolled = 16;       // terms of a sum that is written out
constexpr int64_t kMostParts = 8;              // of a result that is written part by part

// Elements of one row of an array.
int64_t row_elements(const Extents& shape) {
  int64_t n = 1;
  for (size_t d = 1; d < shape.size(); ++d) n *= shape[d];
  return n;
}

bool is_slow(const Head& head) {
  return head.is(Primitive::kMap) && head.function >= Function::kExp && head.function <= Function::kErfc;
}

class Lowering {
 public:
  // `locals`: nullptr for a call alone.
  Lowering(LoopProgram& to, const std::set<std::string>* locals) : to_(to), locals_(locals) {}

  void run(const std::vector<algebra::NamedExpr>& results) {
    for (const algebra::NamedExpr& r : results) count_uses(r.expr);
    for (const algebra::NamedExpr& r : results) {
      if (!by_rows()) {
        add_result(r);
        continue;
      }
      const LoopProgram before = to_;
      const Names names = given_;
      try {
        add(r);
      } catch (const NeedsOwnNest&) {
        to_ = before;
        given_ = names;
        in_row_ = false;
        apart_ = true;
        add(r);
        apart_ = false;
      }
    }
  }

 private:
  void add(const algebra::NamedExpr& result) {
    if (!add_scatter(result)) add_result(result);
  }

  void count_uses(const Expr& e) {
    if (uses_[e.id()]++ > 0) return;
    for (const Expr& x : e.inputs()) count_uses(x);
  }

  bool by_rows() const { return locals_ != nullptr; }
  bool is_local(const std::string& name) const { return by_rows() && locals_->count(name) > 0; }

  // The nest for such loops: the last one or one after it, so that a result is computed before others read it.
  void enter_nest(const Extents& leads, const std::string& rows_of) {
    for (size_t d = 1; d < leads.size(); ++d)
      if (leads[d] >= kVaryingExtent) throw NoLoops("an extent that varies is not the first");
    if (by_rows() && !to_.nests.empty() && leads[0] != to_.nests[0].leads[0])
      throw NoLoops("its calls do not run over the same rows");
    if (to_.nests.empty() || to_.nests.back().leads != leads || apart_) {
      to_.nests.push_back({leads, rows_of, {}});
      given_.of_nests.emplace_back();
    }
    now_ = to_.nests.size() - 1;
  }

  // Rows that are written to places which an index says: of each row the place, then its elements. False: it is none.
  bool add_scatter(const algebra::NamedExpr& result) {
    Expr e = result.expr;
    while (e.head().is(Primitive::kReshape) || (e.head().is(Primitive::kCast) && e.dtype() == e.inputs()[0].dtype()))
      e = e.inputs()[0];
    if (!e.head().is(Primitive::kScatter)) return false;
    Expr old = e.inputs()[0];
    while (old.head().is(Primitive::kReshape)) old = old.inputs()[0];
    if (!old.head().is(Primitive::kInput)) throw NoLoops("rows are stored to something computed");
    const Expr &index = e.inputs()[1], &rows = e.inputs()[2];
    Extents space = rows.shape();
    if (space.size() == 1) space.push_back(1);
    enter_nest(Extents(space.begin(), space.end() - 1), result.name);
    given_.items.overwrite(old.head().name, now_, to_.nests[now_].leads, space.back());
    Code place = of_row_variable(index, {variable(0)});
    std::vector<Index> at;
    for (size_t d = 0; d < rows.shape().size(); ++d) at.push_back(variable(d));
    Code value = emit(rows, at);
    bool moved = !value.element.empty() && value.element_dtype == e.dtype();
    touch(result.name, e.dtype(), result.expr.shape().size(), true);
    to_.arrays[result.name].dense = true;
    const int64_t elements = row_elements(rows.shape());
    // The array may be seen in another shape than it is stored to: rows of `elements`.
    const int64_t pieces = row_elements(result.expr.shape()) / elements;
    std::string count = pieces == 1 ? result.name + "_n" : fmt::format("{}_n * {}", result.name, pieces);
    LoopStatement store{LoopStatement::Kind::kStore, result.name, e.dtype(),
                        moved ? value.element : unwrapped(value.text), space.back()};
    store.moved = moved;
    store.index = fmt::format("{} * {} + {}", place.text, elements, index_text(within_row(space)));
    store.guard = fmt::format("{0} >= 0 && {0} < {1}", place.text, count);
    statements().push_back(store);
    return true;
  }

  // The place of an element among those of its row.
  Index within_row(const Extents& space) const {
    Index within = variable(space.size() - 1);
    int64_t stride = space.back();
    for (size_t d = space.size() - 1; d-- > 1; stride *= space[d]) within.factors[d] = stride;
    return within;
  }

  // A variable of a whole row.
  Code of_row_variable(const Expr& e, const std::vector<Index>& at) {
    std::string key = "row " + key_of(e, at);
    if (auto found = given_.of_rows.find(key); found != given_.of_rows.end()) return found->second;
    in_row_ = true;
    Code value = emit(e, at);
    in_row_ = false;
    return named(key, LoopStatement::Kind::kScalar, value, 1, true);
  }

  void add_result(const algebra::NamedExpr& result) {
    // Elements of a reshape are stored in the order in which they are computed.
    Expr e = result.expr;
    const DType stored = e.dtype();
    const Extents out = e.shape();
    bool reshaped = false;
    while (e.head().is(Primitive::kCast) || e.head().is(Primitive::kReshape)) {
      if (e.head().is(Primitive::kCast) && e.dtype() != stored) break;  // an earlier rounding
      reshaped = reshaped || e.head().is(Primitive::kReshape);
      e = e.inputs()[0];
    }
    Extents space = e.shape();
    if (add_parts(result, e, reshaped)) return;
    if (space.empty() || space[0] != out[0]) throw NoLoops("a result is not computed row by row");
    if (space.size() == 1) space.push_back(1);
    if (space.back() >= kVaryingExtent) throw NoLoops("an extent that varies is not the first");
    Extents leads(space.begin(), space.end() - 1);
    enter_nest(leads, result.name);
    std::vector<Index> at;
    for (size_t d = 0; d < e.shape().size(); ++d) at.push_back(variable(d));
    if (e.shape().size() == space.size()) at.back() = variable(leads.size());
    Code value = emit(e, at);
    bool moved = !value.element.empty() && value.element_dtype == stored;
    LoopStatement store{LoopStatement::Kind::kStore, result.name, stored, moved ? value.element : unwrapped(value.text),
                        space.back()};
    store.moved = moved;
    if (is_local(result.name)) {
      to_.locals[result.name] = {stored, row_elements(out)};
      store.index = index_text(within_row(space));
    } else {
      touch(result.name, stored, out.size(), true);
      store.index = store_index(result.name, out, space, reshaped);
    }
    statements().push_back(store);
    given_.items.store(result.name, now_, space.back());
  }

  // A result [P, T, ...] of a few parts that have the same rows: a store for each part. False: it is none.
  bool add_parts(const algebra::NamedExpr& result, const Expr& e, bool reshaped) {
    const Extents &out = result.expr.shape(), &from = e.shape();
    if (!by_rows() || out.size() < 3 || out[0] >= kVaryingExtent || out[0] > kMostParts || out[1] < kVaryingExtent)
      return false;
    if (from.size() < 3 || from[0] != out[0] || from[1] != out[1] || is_local(result.name)) return false;
    Extents space(from.begin() + 1, from.end());
    if (space.back() >= kVaryingExtent) return false;
    enter_nest(Extents(space.begin(), space.end() - 1), result.name);
    touch(result.name, result.expr.dtype(), out.size(), true);
    to_.arrays[result.name].row_axis = 1;
    // Behind its rows it is dense, as the last dimension is.
    if (reshaped && out.size() != 3) throw NoLoops("parts of a result are reshaped");
    for (int64_t p = 0; p < out[0]; ++p) {
      std::vector<Index> at = {fixed(p)};
      for (size_t d = 0; d < space.size(); ++d) at.push_back(variable(d));
      Code value = emit(e, at);
      LoopStatement store{LoopStatement::Kind::kStore, result.name, result.expr.dtype(), unwrapped(value.text),
                          space.back()};
      if (reshaped || from == out) {
        std::string place = reshaped ? index_text(within_row(space)) : "";
        if (!reshaped) {
          for (size_t d = 2; d + 1 < out.size(); ++d) place += fmt::format("l{} * {}_s{} + ", d - 1, result.name, d);
          place += "i";
        }
        store.index = fmt::format("l0 * {0}_s1 + {1}", result.name, place);
        if (p > 0) store.index = fmt::format("{} * {}_s0 + {}", p, result.name, store.index);
      } else {
        throw NoLoops("parts of a result are reshaped");
      }
      statements().push_back(store);
    }
    return true;
  }

  // Behind the first dimension a result is dense.
  std::string store_index(const std::string& name, const Extents& out, const Extents& space, bool reshaped) {
    std::vector<Index> at;
    if (!reshaped) {
      for (size_t d = 0; d < out.size(); ++d) at.push_back(variable(d));
      if (out.size() == space.size()) at.back() = variable(space.size() - 1);
      return address(name, out, at);
    }
    to_.arrays[name].dense_rows = true;
    return fmt::format("l0 * {}_s0 + {}", name, index_text(within_row(space)));
  }

  size_t num_variables() const { return to_.nests[now_].leads.size() + 1; }
  Index variable(size_t v) const {
    Index index{0, std::vector<int64_t>(num_variables(), 0)};
    index.factors[v] = 1;
    return index;
  }
  Index fixed(int64_t value) const { return {value, std::vector<int64_t>(num_variables(), 0)}; }
  std::vector<LoopStatement>& statements() { return to_.nests[now_].statements; }

  void touch(const std::string& name, DType dtype, size_t rank, bool written) {
    if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) throw NoLoops("FP8 has no type in candidates");
    ArrayUse& access = to_.arrays[name];
    // Several calls may read what an earlier one stored; a call alone has one array for both.
    if (by_rows() ? written && access.rank > 0 : access.written || (written && access.rank > 0))
      throw NoLoops("it is updated in place");
    access.dtype = dtype;
    access.rank = rank;
    access.written = access.written || written;
  }

  static bool is_row(const Index& index) {
    return index.text.empty() && index.start == 0 && index.factors[0] == 1 &&
           std::all_of(index.factors.begin() + 1, index.factors.end(), [](int64_t f) { return f == 0; });
  }

  // Compilers do not vectorise copies of a class, so those of bf16 are copies of bits.
  static Code loaded(const std::string& element, DType dtype) {
    DType as = computed_as(dtype);
    std::string value = as == dtype ? element : fmt::format("{}({})", c_name(as), element);
    return {value, as, {}, dtype == DType::kBF16 ? element + ".bits" : element, dtype};
  }

  // An element of an array. `seen_as` is another shape with the same rows, where `at` is an index of that.
  Code load(const Head& array, const Extents& seen_as, const std::vector<Index>& at) {
    if (auto use = to_.arrays.find(array.name);
        by_rows() && use != to_.arrays.end() && use->second.written && (use->second.dense || !is_row(at[0])))
      throw NoLoops("a call reads other rows of what an earlier one computes");
    if (by_rows()) given_.items.read(now_, to_.nests[now_].leads, {array.name, seen_as, at, in_row_});
    const bool reshaped = seen_as != array.shape;
    if (is_local(array.name) || reshaped) {
      bool rows = is_row(at[0]) || (seen_as[0] == 1 && at[0].is_zero());
      if (!rows && is_local(array.name)) throw NoLoops("a call reads other rows of what an earlier one computes");
      std::string place = flat_text(seen_as, at);
      if (is_local(array.name)) return loaded(fmt::format("{}[{}]", array.name, place), array.dtype);
      touch(array.name, array.dtype, array.shape.size(), false);
      to_.arrays[array.name].dense_rows = true;
      std::string row = index_text(at[0]);
      if (row.find(' ') != row.npos) row = "(" + row + ")";
      std::string element = fmt::format("{0}_p[{1} * {0}_s0 + {2}]", array.name, row, place);
      return loaded(element, array.dtype);
    }
    touch(array.name, array.dtype, array.shape.size(), false);
    return loaded(fmt::format("{}_p[{}]", array.name, address(array.name, array.shape, at)), array.dtype);
  }

  // The place of an element among those of its row, in row-major order.
  std::string flat_text(const Extents& shape, const std::vector<Index>& at) const {
    Index flat = fixed(0);
    std::string text;
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 1; stride *= shape[d]) {
      if (shape[d] == 1) continue;
      if (!at[d].text.empty()) {
        text += fmt::format(" + ({}) * {}", at[d].text, stride);
        continue;
      }
      flat.add(at[d], stride);
    }
    return index_text(flat) + text;
  }

  // The element of an array: strides in all dimensions but the last, which is dense.
  static std::string address(const std::string& name, const Extents& shape, const std::vector<Index>& at) {
    std::string text;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1 || at[d].is_zero()) continue;
      std::string index = index_text(at[d]);
      if (!text.empty()) text += " + ";
      if (d + 1 == shape.size()) {
        text += index;
      } else {
        if (index.find(' ') != index.npos) index = "(" + index + ")";
        text += fmt::format("{} * {}_s{}", index, name, d);
      }
    }
    return text.empty() ? "0" : text;
  }

  Code emit(const Expr& e, const std::vector<Index>& at) {
    if (std::optional<Code> once = emit_once_for_row(e, at)) return *once;
    const Head& head = e.head();
    switch (head.primitive) {
      case Primitive::kConstant: {
        DType as = computed_as(head.dtype);
        return {number_code(head.value, as), as, head.value};
      }
      case Primitive::kIota:
        return {"(" + index_text(at[static_cast<size_t>(head.axis)]) + ")", DType::kI64};
      case Primitive::kInput:
        return load(head, head.shape, at);
      case Primitive::kTable:
        return emit_table(head, at);
      case Primitive::kView:
        return emit(e.inputs()[0], viewed(head.map, at));
      case Primitive::kReshape: {
        const Expr& x = e.inputs()[0];
        // A dense row may be read in any shape.
        if (by_rows() && x.head().is(Primitive::kInput) && x.shape()[0] == head.shape[0])
          return load(x.head(), head.shape, at);
        return emit(x, index_before_reshape(x.shape(), head.shape, at, num_variables()));
      }
      case Primitive::kCast: {
        Code x = emit(e.inputs()[0], at);
        return rounded(x, head.dtype);
      }
      case Primitive::kMap:
        return emit_map(e, at);
      case Primitive::kReduce:
        return emit_reduce(e, at);
      case Primitive::kGather:
        return emit_gather(e, at);
      default:
        throw NoLoops(fmt::format("there are no loops for {}", algebra::head_text(head)));
    }
  }

  Code emit_table(const Head& head, const std::vector<Index>& at) {
    auto found = std::find(to_.tables.begin(), to_.tables.end(), head.table);
    if (found == to_.tables.end()) found = to_.tables.insert(found, head.table);
    Index flat = fixed(0);
    int64_t stride = 1;
    for (size_t d = head.shape.size(); d-- > 0; stride *= head.shape[d]) {
      if (head.shape[d] == 1) continue;
      if (!at[d].text.empty()) throw NoLoops("a table is read at computed places");
      flat.add(at[d], stride);
    }
    std::string element = fmt::format("table{}[{}]", found - to_.tables.begin(), index_text(flat));
    DType as = computed_as(head.dtype);
    return {as == DType::kF64 ? element : fmt::format("{}({})", c_name(as), element), as};
  }

  bool has_slow(const Expr& e) {
    auto [at, is_new] = slow_.emplace(e.id(), is_slow(e.head()));
    if (!is_new || at->second) return at->second;
    bool any = false;
    for (const Expr& x : e.inputs()) any = any || (!x.head().is(Primitive::kReduce) && has_slow(x));
    return slow_[e.id()] = any;
  }

  // A slow expression that is the same for all l1, l2, ... is computed once, before their loops: the sines and cosines
  // of a token serve all its heads, and those of its keys.
  std::optional<Code> emit_once_for_row(const Expr& e, const std::vector<Index>& at) {
    if (!by_rows() || in_row_ || at.empty() || to_.nests[now_].leads.size() == 1) return {};
    if (!e.head().is(Primitive::kMap) && !e.head().is(Primitive::kCast)) return {};
    const size_t last = num_variables() - 1;
    bool whole = false;
    for (size_t d = 0; d < at.size(); ++d) {
      if (e.shape()[d] == 1) continue;
      if (!at[d].text.empty()) return {};
      for (size_t v = 1; v < last; ++v)
        if (at[d].factors[v] != 0) return {};
      if (at[d].factors[last] == 0) continue;
      if (d + 1 != at.size() && !std::all_of(at.begin() + static_cast<std::ptrdiff_t>(d) + 1, at.end(),
                                             [](const Index& x) { return !x.uses_i(); }))
        return {};
      if (at[d].start != 0 || at[d].factors[last] != 1) return {};
      whole = true;
    }
    if (!has_slow(e)) return {};
    std::string key = "row " + key_of(e, at);
    if (auto found = given_.of_rows.find(key); found != given_.of_rows.end()) return found->second;
    int64_t length = 1;
    for (size_t d = 0; d < at.size(); ++d)
      if (e.shape()[d] > 1 && at[d].factors[last] != 0) length = e.shape()[d];
    if (length > kLargestLocalArray) return {};
    in_row_ = true;
    Code value = emit(e, at);
    in_row_ = false;
    return named(key, whole ? LoopStatement::Kind::kFill : LoopStatement::Kind::kScalar, value, length, true);
  }

  std::vector<Index> viewed(const algebra::IndexMap& map, const std::vector<Index>& at) const {
    std::vector<Index> inner;
    for (size_t d = 0; d < map.start.size(); ++d) {
      Index index = fixed(map.start[d]);
      std::string text;
      for (size_t j = 0; j < at.size(); ++j) {
        int64_t factor = map.factors[d][j];
        if (factor == 0) continue;
        if (!at[j].text.empty()) {
          text += fmt::format(" + {} * ({})", factor, at[j].text);
          index.text_uses_i = index.text_uses_i || at[j].text_uses_i;
          continue;
        }
        index.add(at[j], factor);
      }
      if (!text.empty()) {
        index.text_uses_i = index.text_uses_i || index.factors.back() != 0;
        index.text = index_text({index.start, index.factors}) + text;
      }
      inner.push_back(index);
    }
    return inner;
  }

  static bool any_uses_i(const std::vector<Index>& at) {
    return std::any_of(at.begin(), at.end(), [](const Index& x) { return x.uses_i(); });
  }

  std::string key_of(const Expr& e, const std::vector<Index>& at) const {
    std::string key = fmt::format("{}", fmt::ptr(e.id()));
    for (size_t d = 0; d < at.size(); ++d) key += "," + (e.shape()[d] == 1 ? "0" : index_text(at[d]));
    return key;
  }

  // What stands before the loops over l1, l2, ... can use nothing of what stands inside.
  std::optional<Code> known(const std::string& key) const {
    const auto& of_nest = given_.of_nests[now_];
    if (auto found = of_nest.find(key); !in_row_ && found != of_nest.end()) return found->second;
    if (auto found = given_.of_rows.find(key); found != given_.of_rows.end()) return found->second;
    return {};
  }

  // A variable for a value that does not change with i, or is used by another statement.
  Code named(const std::string& key, const LoopStatement::Kind kind, const Code& value, int64_t count,
             bool of_row = false) {
    std::string name = fmt::format("{}{}", kind == LoopStatement::Kind::kFill ? "a" : "v", given_.count++);
    bool alone = kind != LoopStatement::Kind::kFold;  // a fold puts an operator before it
    LoopStatement statement{kind, name, value.dtype, alone ? unwrapped(value.text) : value.text, count};
    // What it needs of its row was named before it, so it may stand before the loops over l1, l2, ... as that does.
    statement.of_row = of_row || in_row_;
    statements().push_back(statement);
    Code use{kind == LoopStatement::Kind::kFill ? name + "[i]" : name, value.dtype};
    (statement.of_row ? given_.of_rows : given_.of_nests[now_]).emplace(key, use);
    return use;
  }

  // Whether an index, which is known here, equals a number; nothing: it is not known.
  static std::optional<bool> known_condition(const Expr& e, const std::vector<Index>& at) {
    if (!e.head().is(Function::kEqual)) return {};
    auto number_of = [](Expr x) -> const Head* {
      while (x.head().is(Primitive::kView)) x = x.inputs()[0];
      return x.head().is(Primitive::kConstant) ? &x.head() : nullptr;
    };
    const Expr &a = e.inputs()[0], &b = e.inputs()[1];
    const Expr& index = a.head().is(Primitive::kIota) ? a : b;
    const Head* number = number_of(a.head().is(Primitive::kIota) ? b : a);
    if (!index.head().is(Primitive::kIota) || number == nullptr) return {};
    const Index& place = at[static_cast<size_t>(index.head().axis)];
    if (!place.text.empty() ||
        std::any_of(place.factors.begin(), place.factors.end(), [](int64_t f) { return f != 0; }))
      return {};
    return static_cast<double>(place.start) == number->value;
  }

  Code emit_map(const Expr& e, const std::vector<Index>& at) {
    if (e.head().is(Function::kSelect))
      if (std::optional<bool> is = known_condition(e.inputs()[0], at)) {
        Code chosen = emit(e.inputs()[*is ? 1 : 2], at);
        return {converted(chosen, computed_as(e.dtype())), computed_as(e.dtype())};
      }
    std::string key = key_of(e, at);
    if (std::optional<Code> code = known(key)) return *code;
    std::vector<Code> x;
    for (const Expr& input : e.inputs()) x.push_back(emit(input, at));
    Code value = applied(e, x);
    if (!any_uses_i(at)) return named(key, LoopStatement::Kind::kScalar, value, 1);
    // A slow function that several statements need is computed once, where i runs over a whole dimension.
    const int64_t length = e.shape().back();
    bool whole = at.back().text.empty() && at.back().start == 0 && index_text(at.back()) == "i" &&
                 std::none_of(at.begin(), at.end() - 1, [](const Index& a) { return a.uses_i(); });
    if (whole && is_slow(e.head()) && uses_[e.id()] > 1 && length <= kLargestLocalArray)
      return named(key, LoopStatement::Kind::kFill, value, length);
    return value;
  }

  Code emit_reduce(const Expr& e, std::vector<Index> at) {
    const Head& head = e.head();
    const Expr& x = e.inputs()[0];
    auto axis = static_cast<size_t>(head.axis);
    const int64_t count = x.shape()[axis];
    DType as = computed_as(e.dtype());
    at[axis] = fixed(0);
    if (!any_uses_i(at)) {
      std::string key = key_of(e, at);
      if (std::optional<Code> code = known(key)) return *code;
      at[axis] = variable(num_variables() - 1);
      if (count >= kVaryingExtent) throw NoLoops("a reduction runs over an extent that varies");
      Code value = emit(x, at);
      Code use = named(key, LoopStatement::Kind::kFold, {converted(value, as), as}, count);
      statements().back().fold = head.fold;
      return use;
    }
    // For every i a few terms, written out.
    if (count > kLargestUnrolled || count == 0 || head.fold != Fold::kSum)
      throw NoLoops("a reduction is not along the last dimension");
    std::string sum;
    for (int64_t k = 0; k < count; ++k) {
      at[axis] = fixed(k);
      sum += (k == 0 ? "" : " + ") + converted(emit(x, at), as);
    }
    return {"(" + sum + ")", as};
  }

  Code emit_gather(const Expr& e, const std::vector<Index>& at) {
    const Expr &x = e.inputs()[0], &index = e.inputs()[1];
    if (!x.head().is(Primitive::kInput)) throw NoLoops("rows are gathered from something computed");
    auto axis = static_cast<int64_t>(e.head().axis), behind = axis + index.rank();
    std::vector<Index> within(at.begin() + axis, at.begin() + behind);
    Code row = emit(index, within);
    bool uses_i = any_uses_i(within);
    if (!uses_i) {
      std::string key = "row " + key_of(index, within);
      std::optional<Code> code = known(key);
      row = code ? *code : named(key, LoopStatement::Kind::kScalar, row, 1);
    }
    std::vector<Index> inner(at.begin(), at.begin() + axis);
    inner.push_back(fixed(0));
    inner.back().text = row.text;
    inner.back().text_uses_i = uses_i;
    inner.insert(inner.end(), at.begin() + behind, at.end());
    const int64_t extent = x.size(static_cast<int>(axis));
    if (by_rows() && axis > 0 && extent >= kVaryingExtent) throw NoLoops("an extent that varies is not the first");
    std::string bound = extent < kVaryingExtent ? fmt::to_string(extent)
                        : by_rows()             ? x.head().name + "_n"
                                                : fmt::format("{}.size({})", x.head().name, axis);
    Code value = emit(x, inner);
    std::string inside = fmt::format("{0} >= 0 && {0} < {1}", row.text, bound);
    to_.guards[value.element.substr(0, value.element.rfind(']') + 1)] = inside;
    return {fmt::format("({} ? {} : {})", inside, value.text, number_code(0, value.dtype)),
            value.dtype,
            {},
            fmt::format("{} ? {} : {}(0)", inside, value.element,
                        value.element_dtype == DType::kBF16 ? "uint16_t" : element_name(value.element_dtype)),
            value.element_dtype};
  }

  LoopProgram& to_;
  const std::set<std::string>* locals_;
  std::map<const ExprNode*, int> uses_;
  std::map<const ExprNode*, bool> slow_;
  // What statements so far have named.
  struct Names {
    std::vector<std::map<std::string, Code>> of_nests;  // values
    std::map<std::string, Code> of_rows;                // values of a whole row, for all nests after them
    size_t count = 0;                                   // of variables
    ItemOrder items;
  };
  Names given_;
  size_t now_ = 0;       // the nest
  bool in_row_ = false;  // a value of a whole row is being written
  bool apart_ = false;   // a result needs its own nest
};

LoopProgram lowered(const std::vector<algebra::NamedExpr>& results, const std::set<std::string>* locals) {
  LoopProgram program;
  try {
    Lowering(program, locals).run(results);
  } catch (const NoLoops& why) {
    program = {};
    program.refusal = why.what();
  }
  return program;
}

}  // namespace

LoopProgram lower_to_loops(const std::vector<algebra::NamedExpr>& results) { return lowered(results, nullptr); }

LoopProgram lower_to_row_loops(const std::vector<algebra::NamedExpr>& results, const std::set<std::string>& locals) {
  return lowered(results, &locals);
}

}  // namespace fk
