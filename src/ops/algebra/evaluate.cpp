#include "ops/algebra/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/error.h"

namespace fk::algebra {
namespace {

Extents dense_strides(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Calls visit(index) for every index of the shape, in row-major order.
template <class Visit>
void each_index(const Extents& shape, Visit&& visit) {
  Extents index(shape.size(), 0);
  for (int64_t i = 0, n = count_elements(shape); i < n; ++i) {
    visit(index);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
}

double fold_start(Fold fold) { return fold == Fold::kMax ? -INFINITY : fold == Fold::kMin ? INFINITY : 0; }

double fold_step(Fold fold, double so_far, double x) {
  switch (fold) {
    case Fold::kSum:
      return so_far + x;
    case Fold::kMax:
      return apply(Function::kMaximum, so_far, x);
    case Fold::kMin:
      return apply(Function::kMinimum, so_far, x);
    case Fold::kAny:
      return so_far != 0 || x != 0;
  }
  return x;
}

constexpr size_t kMostDimensions = 8;
using Index = std::array<int64_t, kMostDimensions>;

// Elements along one axis: at[axis] + k * step for k < count. An array of rank 0 has no axis, and one element.
struct Line {
  Index at = {};
  int axis = -1;
  int64_t step = 1;
  int64_t count = 1;
};

// Arrays that are read more than once, or in another order than they are computed, are stored; all others are computed
// line by line where they are used. So the products of a matrix product need no memory.
class Evaluation {
 public:
  explicit Evaluation(const Environment& environment) : environment_(environment) {}

  std::vector<Values> run(const std::vector<Expr>& results) {
    for (const Expr& e : results) steps_[visit(e)].is_stored = true;
    for (Step& step : steps_) {
      if (step.is_stored) step.stored = compute(step);
      find_place(step);
    }
    std::vector<Values> values;
    for (const Expr& e : results) values.push_back(steps_[visit(e)].stored);
    return values;
  }

 private:
  static constexpr int64_t kLargestStoredGather = 1 << 20;

  struct Step {
    Expr expr;
    const Head* head;
    std::vector<size_t> inputs;  // earlier steps
    Extents strides;
    bool is_stored;
    Values stored = nullptr;
    // Where elements are if this is stored, or a view of something stored: at data[sum of index[d] * factors[d]].
    bool has_place = false;
    const double* data = nullptr;
    Index factors = {};

    size_t rank() const { return head->shape.size(); }
    int last() const { return static_cast<int>(rank()) - 1; }
  };

  // The step of an expression, added behind those of its inputs.
  size_t visit(const Expr& e) {
    const Head& head = e.head();
    if (auto at = number_.find(e.id()); at != number_.end()) {
      Step& step = steps_[at->second];
      if (head.is(Primitive::kMap) || head.is(Primitive::kCast)) step.is_stored = true;
      return at->second;
    }
    if (head.shape.size() > kMostDimensions) throw Error("An array of rank {} is too deep.", head.shape.size());
    Step step{e, &head, {}, dense_strides(head.shape), false};
    bool whole = head.is(Primitive::kReshape) || head.is(Primitive::kCall) || head.is(Primitive::kScatter);
    bool moves = whole || head.is(Primitive::kView) || head.is(Primitive::kGather);
    for (const Expr& x : e.inputs()) {
      step.inputs.push_back(visit(x));
      bool computed = x.head().is(Primitive::kMap) || x.head().is(Primitive::kCast);
      if (whole || (moves && computed)) steps_[step.inputs.back()].is_stored = true;
    }
    if (head.is(Primitive::kGather)) steps_[step.inputs[1]].is_stored = true;
    // Rows of a cache are read by every query; rows of weights, of which there are many more, once.
    bool small_gather = head.is(Primitive::kGather) && count_elements(head.shape) <= kLargestStoredGather;
    step.is_stored = whole || small_gather || head.is(Primitive::kInput) || head.is(Primitive::kTable) ||
                     head.is(Primitive::kReduce) || head.is(Primitive::kScan);
    steps_.push_back(std::move(step));
    number_.emplace(e.id(), steps_.size() - 1);
    return steps_.size() - 1;
  }

  const Step& input(const Step& step, size_t i) const { return steps_[step.inputs[i]]; }

  void find_place(Step& step) const {
    if (step.is_stored) {
      step.has_place = true;
      step.data = step.stored->data();
      std::copy(step.strides.begin(), step.strides.end(), step.factors.begin());
    } else if (step.head->is(Primitive::kView) && input(step, 0).has_place) {
      const Step& x = input(step, 0);
      const IndexMap& map = step.head->map;
      int64_t start = 0;
      for (size_t d = 0; d < map.start.size(); ++d) {
        start += map.start[d] * x.factors[d];
        for (size_t j = 0; j < step.rank(); ++j) step.factors[j] += map.factors[d][j] * x.factors[d];
      }
      step.has_place = true;
      step.data = count_elements(step.head->shape) == 0 ? nullptr : x.data + start;
    }
  }

  Values compute(const Step& step) {
    const Head& head = *step.head;
    auto of = [&](size_t i) -> const std::vector<double>& { return *input(step, i).stored; };
    switch (head.primitive) {
      case Primitive::kInput:
        return checked(environment_.input(head), head);
      case Primitive::kTable:
        return std::make_shared<std::vector<double>>(head.table);
      case Primitive::kReshape:
        return input(step, 0).stored;
      case Primitive::kCall: {
        std::vector<Values> inputs;
        for (size_t i : step.inputs) inputs.push_back(steps_[i].stored);
        if (!environment_.call) throw Error("{} cannot be evaluated: it is opaque.", head_text(head));
        return checked(environment_.call(step.expr, inputs), head);
      }
      case Primitive::kScatter: {
        auto out = std::make_shared<std::vector<double>>(of(0));
        const int64_t rows = head.shape[0], length = rows == 0 ? 0 : count_elements(head.shape) / rows;
        for (size_t i = 0; i < of(1).size(); ++i) {
          auto row = static_cast<int64_t>(of(1)[i]);
          if (row < 0 || row >= rows) continue;
          std::copy_n(of(2).begin() + static_cast<int64_t>(i) * length, length, out->begin() + row * length);
        }
        return out;
      }
      case Primitive::kReduce:
      case Primitive::kScan:
        return fold_lines(step);
      default:
        return by_lines(step);
    }
  }

  static Values checked(Values values, const Head& head) {
    if (static_cast<int64_t>(values->size()) != count_elements(head.shape))
      throw Error("'{}' has {} elements instead of {}.", head_text(head), values->size(), count_elements(head.shape));
    return values;
  }

  static Index index_of(const Extents& at) {
    Index index = {};
    std::copy(at.begin(), at.end(), index.begin());
    return index;
  }

  Values by_lines(const Step& step) {
    Extents outer = step.head->shape;
    auto out = std::make_shared<std::vector<double>>(static_cast<size_t>(count_elements(outer)));
    if (out->empty()) return out;
    const int64_t length = outer.empty() ? 1 : outer.back();
    if (!outer.empty()) outer.back() = 1;
    double* to = out->data();
    each_index(outer, [&](const Extents& at) {
      line(step, {index_of(at), step.last(), 1, length}, to);
      to += length;
    });
    return out;
  }

  // A reduction, or a scan.
  Values fold_lines(const Step& step) {
    const Head& head = *step.head;
    const Step& x = input(step, 0);
    auto axis = static_cast<size_t>(head.axis);
    auto out = std::make_shared<std::vector<double>>(static_cast<size_t>(count_elements(head.shape)));
    Extents outer = head.shape;
    if (!out->empty()) outer[axis] = 1;
    const int64_t count = x.head->shape[axis];
    std::vector<double> elements(static_cast<size_t>(count));
    each_index(outer, [&](const Extents& at) {
      int64_t to = 0;
      for (size_t d = 0; d < at.size(); ++d) to += at[d] * step.strides[d];
      if (count > 0) line(x, {index_of(at), head.axis, 1, count}, elements.data());
      double so_far = fold_start(head.fold);
      for (int64_t k = 0; k < count; ++k) {
        so_far = fold_step(head.fold, so_far, elements[static_cast<size_t>(k)]);
        if (head.is(Primitive::kScan)) (*out)[static_cast<size_t>(to + k * step.strides[axis])] = so_far;
      }
      if (head.is(Primitive::kReduce)) (*out)[static_cast<size_t>(to)] = so_far;
    });
    return out;
  }

  double element(const Step& step, const Index& at) {
    double value = 0;
    line(step, {at, step.last(), 1, 1}, &value);
    return value;
  }

  void line(const Step& step, const Line& l, double* out) {
    const Head& head = *step.head;
    if (step.has_place) return placed_line(step, l, out);
    switch (head.primitive) {
      case Primitive::kConstant:
        std::fill_n(out, l.count, head.value);
        return;
      case Primitive::kIota:
        for (int64_t k = 0; k < l.count; ++k)
          out[k] = static_cast<double>(l.at[static_cast<size_t>(head.axis)] + (head.axis == l.axis ? k * l.step : 0));
        return;
      case Primitive::kCast:
        line(input(step, 0), l, out);
        for (int64_t k = 0; k < l.count; ++k) out[k] = rounded(out[k], head.dtype);
        return;
      case Primitive::kMap: {
        const Scratch scratch(*this);
        const double *b = nullptr, *c = nullptr;
        line(input(step, 0), l, out);
        if (step.inputs.size() > 1) b = operand(input(step, 1), l, scratch.first());
        if (step.inputs.size() > 2) c = operand(input(step, 2), l, scratch.second());
        map_line(head.function, step.inputs.size(), l.count, out, b, c);
        return;
      }
      case Primitive::kView:
        return view_line(step, l, out);
      case Primitive::kGather:
        return gather_line(step, l, out);
      default:
        throw Error("{} was not evaluated before it is used.", head_text(head));
    }
  }

  // Two buffers for each level of maps within maps, kept for the next line.
  class Scratch {
   public:
    explicit Scratch(Evaluation& evaluation) : evaluation_(evaluation), level_(evaluation.level_++) {
      if (evaluation.scratch_.size() < 2 * evaluation.level_) evaluation.scratch_.resize(2 * evaluation.level_);
    }
    ~Scratch() { --evaluation_.level_; }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    size_t first() const { return 2 * level_; }
    size_t second() const { return 2 * level_ + 1; }

   private:
    Evaluation& evaluation_;
    size_t level_;
  };

  // A line to be read: the elements themselves where they lie in a row, otherwise copied into a buffer.
  const double* operand(const Step& step, const Line& l, size_t buffer) {
    if (step.has_place && (l.count == 1 || stride_of(step, l) == 1)) return first_of(step, l);
    if (scratch_[buffer].size() < static_cast<size_t>(l.count)) scratch_[buffer].resize(static_cast<size_t>(l.count));
    double* copy = scratch_[buffer].data();
    line(step, l, copy);
    return copy;
  }

  static const double* first_of(const Step& step, const Line& l) {
    int64_t from = 0;
    for (size_t d = 0; d < step.rank(); ++d) from += l.at[d] * step.factors[d];
    return step.data + from;
  }
  static int64_t stride_of(const Step& step, const Line& l) {
    return l.axis < 0 ? 0 : step.factors[static_cast<size_t>(l.axis)] * l.step;
  }

  static void placed_line(const Step& step, const Line& l, double* out) {
    const double* data = first_of(step, l);
    const int64_t stride = stride_of(step, l);
    if (stride == 1) {
      std::copy_n(data, l.count, out);
    } else if (stride == 0) {
      std::fill_n(out, l.count, *data);
    } else {
      for (int64_t k = 0; k < l.count; ++k) out[k] = data[k * stride];
    }
  }

  static void map_line(Function f, size_t arity, int64_t count, double* a, const double* b, const double* c) {
    switch (f) {  // those that products, norms and masks are made of, in loops that a compiler vectorises
      case Function::kMultiply:
        for (int64_t k = 0; k < count; ++k) a[k] *= b[k];
        return;
      case Function::kAdd:
        for (int64_t k = 0; k < count; ++k) a[k] += b[k];
        return;
      case Function::kSelect:
        for (int64_t k = 0; k < count; ++k) a[k] = a[k] != 0 ? b[k] : c[k];
        return;
      default:
        for (int64_t k = 0; k < count; ++k) a[k] = apply(f, a[k], arity > 1 ? b[k] : 0);
    }
  }

  void view_line(const Step& step, const Line& l, double* out) {
    const IndexMap& map = step.head->map;
    const Step& x = input(step, 0);
    Line inner{{}, -1, 0, l.count};
    int moving = 0;  // dimensions of x along which the line runs
    for (size_t d = 0; d < map.start.size(); ++d) {
      inner.at[d] = map.start[d];
      for (size_t j = 0; j < step.rank(); ++j) inner.at[d] += map.factors[d][j] * l.at[j];
      int64_t factor = l.axis < 0 ? 0 : map.factors[d][static_cast<size_t>(l.axis)];
      if (factor == 0) continue;
      ++moving;
      inner.axis = static_cast<int>(d);
      inner.step = factor * l.step;
    }
    if (moving == 0) {
      std::fill_n(out, l.count, element(x, inner.at));
    } else if (moving == 1) {
      line(x, inner, out);
    } else {
      for (int64_t k = 0; k < l.count; ++k) {
        out[k] = element(x, inner.at);
        for (size_t d = 0; d < map.start.size(); ++d)
          inner.at[d] += map.factors[d][static_cast<size_t>(l.axis)] * l.step;
      }
    }
  }

  void gather_line(const Step& step, const Line& l, double* out) {
    const Step &x = input(step, 0), &index = input(step, 1);
    const auto axis = static_cast<size_t>(step.head->axis), behind = axis + index.rank();
    Index at = l.at;
    auto place = [&](Line& inner) {  // where in x an element of the result is; false: nowhere
      Index within = {};
      std::copy(at.begin() + static_cast<int64_t>(axis), at.begin() + static_cast<int64_t>(behind), within.begin());
      double row = element(index, within);
      std::copy(at.begin(), at.begin() + static_cast<int64_t>(axis), inner.at.begin());
      inner.at[axis] = static_cast<int64_t>(row);
      for (size_t d = axis + 1; d < x.rank(); ++d) inner.at[d] = at[d + index.rank() - 1];
      return row >= 0 && row < static_cast<double>(x.head->shape[axis]);
    };
    const bool along_index = l.axis >= static_cast<int>(axis) && l.axis < static_cast<int>(behind);
    if (along_index && x.has_place) {  // another row for every element
      int64_t from = 0;
      for (size_t d = 0; d < axis; ++d) from += at[d] * x.factors[d];
      for (size_t d = axis + 1; d < x.rank(); ++d) from += at[d + index.rank() - 1] * x.factors[d];
      Line rows{{}, l.axis - static_cast<int>(axis), l.step, l.count};
      std::copy(at.begin() + static_cast<int64_t>(axis), at.begin() + static_cast<int64_t>(behind), rows.at.begin());
      const double* row = first_of(index, rows);
      const int64_t stride = stride_of(index, rows);
      const auto most = static_cast<double>(x.head->shape[axis]);
      for (int64_t k = 0; k < l.count; ++k, row += stride)
        out[k] = *row >= 0 && *row < most ? x.data[from + static_cast<int64_t>(*row) * x.factors[axis]] : 0;
      return;
    }
    if (along_index) {
      Line one{{}, x.last(), 1, 1};
      for (int64_t k = 0; k < l.count; ++k, at[static_cast<size_t>(l.axis)] += l.step) {
        out[k] = 0;
        if (place(one)) line(x, one, out + k);
      }
      return;
    }
    bool before = l.axis < static_cast<int>(axis);
    Line inner{{}, before ? l.axis : l.axis - static_cast<int>(index.rank()) + 1, l.step, l.count};
    if (place(inner))
      line(x, inner, out);
    else
      std::fill_n(out, l.count, 0.0);
  }

  const Environment& environment_;
  std::vector<Step> steps_;  // inputs before what uses them
  std::map<const ExprNode*, size_t> number_;
  std::vector<std::vector<double>> scratch_;
  size_t level_ = 0;
};

}  // namespace

double apply(Function function, double a, double b, double c) {
  switch (function) {
    case Function::kAdd:
      return a + b;
    case Function::kSubtract:
      return a - b;
    case Function::kMultiply:
      return a * b;
    case Function::kDivide:
      return a / b;
    case Function::kMaximum:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case Function::kMinimum:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    case Function::kFloorDivide:
      return std::floor(a / b);
    case Function::kModulo:
      return a - std::floor(a / b) * b;
    case Function::kNegate:
      return -a;
    case Function::kAbs:
      return std::abs(a);
    case Function::kExp:
      return std::exp(a);
    case Function::kLog:
      return std::log(a);
    case Function::kSqrt:
      return std::sqrt(a);
    case Function::kSin:
      return std::sin(a);
    case Function::kCos:
      return std::cos(a);
    case Function::kTanh:
      return std::tanh(a);
    case Function::kErfc:
      return std::erfc(a);
    case Function::kFloor:
      return std::floor(a);
    case Function::kRound:
      return std::nearbyint(a);
    case Function::kLess:
      return a < b;
    case Function::kEqual:
      return a == b;
    case Function::kAnd:
      return a != 0 && b != 0;
    case Function::kOr:
      return a != 0 || b != 0;
    case Function::kNot:
      return a == 0;
    case Function::kIsNan:
      return std::isnan(a);
    case Function::kSelect:
      return a != 0 ? b : c;
  }
  return 0;
}

double rounded(double x, DType dtype) {
  std::byte bytes[8];
  store_element(bytes, dtype, x);
  return load_element(bytes, dtype);
}

std::vector<Values> evaluate(const std::vector<Expr>& results, const Environment& environment) {
  return Evaluation(environment).run(results);
}

Values load_values(const View& view) {
  auto values = std::make_shared<std::vector<double>>();
  values->reserve(static_cast<size_t>(view.numel()));
  Extents shape(view.shape().extents().begin(), view.shape().extents().end());
  each_index(shape, [&](const Extents& at) { values->push_back(load_element(view.at(at), view.dtype())); });
  return values;
}

void store_values(const std::vector<double>& values, const View& view) {
  size_t next = 0;
  Extents shape(view.shape().extents().begin(), view.shape().extents().end());
  each_index(shape, [&](const Extents& at) { store_element(view.at(at), view.dtype(), values[next++]); });
}

}  // namespace fk::algebra
