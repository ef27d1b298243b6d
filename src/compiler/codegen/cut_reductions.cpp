#include "compiler/codegen/cut_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/codegen/c_text.h"

namespace fk {
namespace {

using algebra::Expr;
using algebra::ExprNode;
using algebra::Primitive;

constexpr char kCutMark = '#';  // no argument of an operator has a name with it

int64_t elements_of_row(const Expr& e) {
  int64_t elements = 1;
  for (size_t d = 1; d < e.shape().size(); ++d) elements *= e.shape()[d];
  return elements;
}

// Makes results of these nodes.
class Cutter {
 public:
  Cutter(const std::vector<algebra::NamedExpr>& results, const std::set<const ExprNode*>& cut)
      : results_(results), cut_(cut) {
    for (const algebra::NamedExpr& r : results) count_ += is_cut(r.name) ? 1 : 0;
  }

  std::vector<algebra::NamedExpr> run() {
    std::vector<algebra::NamedExpr> all;
    for (const algebra::NamedExpr& r : results_) {
      Expr rest = rewritten(r.expr);
      all.insert(all.end(), made_.begin(), made_.end());
      made_.clear();
      all.push_back({r.name, rest});
    }
    // Cuts first: every result may need them.
    std::stable_partition(all.begin(), all.end(), [](const auto& r) { return is_cut(r.name); });
    return all;
  }

 private:
  Expr rewritten(const Expr& e) {
    if (auto at = done_.find(e.id()); at != done_.end()) return at->second;
    std::vector<Expr> inputs;
    for (const Expr& x : e.inputs()) inputs.push_back(rewritten(x));
    Expr now = inputs.empty() ? e : make_expr(e.head(), std::move(inputs));
    if (cut_.count(e.id()) > 0) {
      const std::string name = fmt::format("{}{}", kCutMark, count_++);
      made_.push_back({name, now});
      now = algebra::input(name, e.dtype(), e.shape());
    }
    return done_.emplace(e.id(), now).first->second;
  }

  const std::vector<algebra::NamedExpr>& results_;
  const std::set<const ExprNode*>& cut_;
  std::map<const ExprNode*, Expr> done_;
  std::vector<algebra::NamedExpr> made_;
  int count_ = 0;
};

// Reductions with more results in a row than one that they are inside of.
class InnerReductions {
 public:
  explicit InnerReductions(const std::vector<algebra::NamedExpr>& results) {
    for (const algebra::NamedExpr& r : results) find(r.expr);
  }
  const std::set<const ExprNode*>& nodes() const { return found_; }

 private:
  void find(const Expr& e) {
    if (!seen_.insert(e.id()).second) return;
    if (e.head().is(Primitive::kReduce)) {
      std::set<const ExprNode*> inside;
      find_inside(e.inputs()[0], elements_of_row(e), inside);
    }
    for (const Expr& x : e.inputs()) find(x);
  }
  void find_inside(const Expr& e, int64_t elements, std::set<const ExprNode*>& seen) {
    if (!seen.insert(e.id()).second) return;
    if (e.head().is(Primitive::kReduce) && e.rank() > 1 && elements_of_row(e) > elements) {
      found_.insert(e.id());
      return;
    }
    for (const Expr& x : e.inputs()) find_inside(x, elements, seen);
  }

  std::set<const ExprNode*> seen_, found_;
};

Expr without_reshapes(Expr e) {
  while (e.head().is(Primitive::kReshape)) e = e.inputs()[0];
  return e;
}

bool same(const Expr& a, const Expr& b) {
  if (a.id() == b.id()) return true;
  if (!(a.head() == b.head()) || a.inputs().size() != b.inputs().size()) return false;
  for (size_t i = 0; i < a.inputs().size(); ++i)
    if (!same(a.inputs()[i], b.inputs()[i])) return false;
  return true;
}

// Rows that a result stores to a state; nothing where it is no such result.
std::optional<Expr> stored_rows(const algebra::NamedExpr& result) {
  Expr e = result.expr;
  while (e.head().is(Primitive::kReshape) || e.head().is(Primitive::kCast)) e = e.inputs()[0];
  if (!e.head().is(Primitive::kScatter) || !without_reshapes(e.inputs()[0]).head().is(Primitive::kInput)) return {};
  return e;
}

// Looks for reads of a state by a result beside the one that overwrites it.
class ReadsBeside {
 public:
  ReadsBeside(const Expr& scatter, bool after) : scatter_(scatter), after_(after) {}

  void check(const Expr& e) {
    if (!seen_.insert(e.id()).second) return;
    const Expr &state = scatter_.inputs()[0], &index = scatter_.inputs()[1];
    if (is_state(e)) throw NoLoops("it reads other rows of a state than it overwrites");
    if (!e.head().is(Primitive::kGather) || !is_state(e.inputs()[0])) {
      for (const Expr& x : e.inputs()) check(x);
      return;
    }
    if (after_) throw NoLoops("it reads a state that it has overwritten");
    if (e.head().axis != 0 || e.inputs()[0].shape() != state.shape() || !same(e.inputs()[1], index))
      throw NoLoops("it reads other rows of a state than it overwrites");
  }

 private:
  bool is_state(const Expr& e) const {
    const Expr whole = without_reshapes(e);
    return whole.head().is(Primitive::kInput) &&
           whole.head().name == without_reshapes(scatter_.inputs()[0]).head().name;
  }

  const Expr& scatter_;
  const bool after_;
  std::set<const ExprNode*> seen_;
};

// Where rows that are stored to a state read it elsewhere than at the element that is stored.
class OverwrittenReads {
 public:
  explicit OverwrittenReads(const std::vector<algebra::NamedExpr>& results) {
    for (const algebra::NamedExpr& r : results) {
      const std::optional<Expr> scatter = stored_rows(r);
      if (!scatter) continue;
      const Expr& e = *scatter;
      state_ = without_reshapes(e.inputs()[0]).head().name;
      index_ = e.inputs()[1];
      rows_ = e.inputs()[2];
      reads_.clear();
      seen_.clear();
      checked_.clear();
      find(rows_);
    }
  }
  const std::set<const ExprNode*>& nodes() const { return found_; }

 private:
  bool is_state(const Expr& e) const {
    const Expr whole = without_reshapes(e);
    return whole.head().is(Primitive::kInput) && whole.head().name == state_;
  }
  bool reads(const Expr& e) {
    if (is_state(e)) return true;
    if (auto known = reads_.find(e.id()); known != reads_.end()) return known->second;
    bool any = false;
    for (const Expr& x : e.inputs()) any = reads(x) || any;
    return reads_[e.id()] = any;
  }

  // e has an element for each that is stored, and the state is read there at the same one.
  void find(const Expr& e) {
    if (!seen_.insert(e.id()).second || !reads(e)) return;
    const algebra::Head& head = e.head();
    if (head.is(Primitive::kGather) && is_state(e.inputs()[0])) {
      if (head.axis != 0 || !same(e.inputs()[1], index_) || e.shape() != rows_.shape())
        throw NoLoops("it reads other rows of a state than it overwrites");
    } else if (head.is(Primitive::kMap) || head.is(Primitive::kCast) || head.is(Primitive::kReshape) ||
               (head.is(Primitive::kView) && is_identity(head.map, e.inputs()[0].shape(), e.shape()))) {
      for (const Expr& x : e.inputs()) find(x);
    } else {
      cut(head.is(Primitive::kView) ? e.inputs()[0] : e);
    }
  }
  void cut(const Expr& e) {
    if (e.rank() < 2 || e.size(0) != rows_.size(0)) throw NoLoops("it reads other rows of a state than it overwrites");
    check(e);
    found_.insert(e.id());
  }
  // Inside of a cut the whole row may be read.
  void check(const Expr& e) {
    if (!reads(e) || !checked_.insert(e.id()).second) return;
    if (e.head().is(Primitive::kGather) && is_state(e.inputs()[0])) {
      if (e.head().axis != 0 || !same(e.inputs()[1], index_))
        throw NoLoops("it reads other rows of a state than it overwrites");
      return;
    }
    if (e.head().is(Primitive::kInput)) throw NoLoops("it reads other rows of a state than it overwrites");
    for (const Expr& x : e.inputs()) check(x);
  }

  std::string state_;
  Expr index_, rows_;
  std::map<const ExprNode*, bool> reads_;
  std::set<const ExprNode*> seen_, checked_, found_;
};

}  // namespace

std::vector<algebra::NamedExpr> cut_reductions(const std::vector<algebra::NamedExpr>& results) {
  return Cutter(results, InnerReductions(results).nodes()).run();
}

std::vector<algebra::NamedExpr> cut_overwritten_reads(const std::vector<algebra::NamedExpr>& results) {
  return Cutter(results, OverwrittenReads(results).nodes()).run();
}

void refuse_overwritten_reads(const std::vector<algebra::NamedExpr>& results) {
  for (size_t r = 0; r < results.size(); ++r) {
    const std::optional<Expr> scatter = stored_rows(results[r]);
    for (size_t other = 0; scatter && other < results.size(); ++other)
      if (other != r) ReadsBeside(*scatter, other > r).check(results[other].expr);
  }
}

bool is_cut(std::string_view name) { return name.starts_with(kCutMark); }

}  // namespace fk
