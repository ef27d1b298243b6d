// Expr: an array as an expression over a dozen primitives. The definitions of operators are written in it
// (ops/algebra/definition.h), ops/algebra/evaluate.h computes it, and the compiler rewrites it.
//
//   Expr scale = 1 / sqrt(mean(x * x, -1) + eps);   // x [T, D], scale [T, 1]
//   Expr y = x * scale * weight;                    // weight [D]: shapes are aligned at the end, as in NumPy
//
// There are no bound variables: an index space is a shape, and what runs over it are its elements. Numbers are real
// numbers; only `cast` rounds. The dtype of an intermediate is the least precision that a kernel may keep it in.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace fk::algebra {

using Extents = std::vector<int64_t>;
int64_t count_elements(const Extents& shape);

enum class Primitive : uint8_t {
  kInput,     // a named array
  kConstant,  // one number in every place
  kTable,     // given numbers
  kIota,      // the index along `axis`
  kView,      // element i is element map(i) of its input: broadcast, transpose, slice, stride, reverse
  kReshape,   // the same elements in row-major order
  kMap,       // a scalar function of the elements in the same place
  kCast,      // rounded to `dtype`
  kReduce,    // along `axis`, whose extent becomes 1
  kScan,      // running sum along `axis`, each element included
  kGather,    // (x, index): x at index[...] along `axis`; 0 where there is no such index
  kScatter,   // (x, index, rows): x with rows[i] at index[i]; the last of equal ones stays, others are left out
  kCall,      // a result of an operator; opaque here
};

enum class Function : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,  // the last two give NaN where either is NaN
  kFloorDivide,
  kModulo,  // of integers that are not negative, by positive ones
  kNegate,
  kAbs,
  kExp,
  kLog,
  kSqrt,
  kSin,
  kCos,
  kTanh,
  kErfc,
  kFloor,
  kRound,  // halves are rounded to even numbers
  kLess,
  kEqual,
  kAnd,
  kOr,
  kNot,
  kIsNan,
  kSelect,  // (condition, then, else)
};

enum class Fold : uint8_t { kSum, kMax, kMin, kAny };

// Index in each dimension of a view's input, affine in the index of its output.
struct IndexMap {
  std::vector<int64_t> start;                 // by input dimension
  std::vector<std::vector<int64_t>> factors;  // by input dimension, then output dimension

  auto operator<=>(const IndexMap&) const = default;
};

// What a call calls. Equal calls of equal inputs have equal results.
struct Callee {
  std::string op;
  std::string init;                 // of its constructor, as JSON: so that callees can be compared
  std::vector<std::string> inputs;  // names of its inputs: arguments, weights, states, metadata
  std::string output;               // which of its results it is

  auto operator<=>(const Callee&) const = default;
};

// A primitive with everything but its inputs. Only the fields that a primitive uses are set.
struct Head {
  Primitive primitive = Primitive::kConstant;
  Function function = Function::kAdd;
  Fold fold = Fold::kSum;
  int axis = 0;
  double value = 0;
  std::vector<double> table = {};
  std::string name = {};
  IndexMap map = {};
  Callee callee = {};
  DType dtype = DType::kF32;
  Extents shape = {};

  bool is(Primitive p) const { return primitive == p; }
  bool is(Function f) const { return primitive == Primitive::kMap && function == f; }
  // By bits where numbers are compared: 0 and -0 differ, a NaN equals itself.
  std::strong_ordering operator<=>(const Head& other) const;
  bool operator==(const Head& other) const { return (*this <=> other) == 0; }
};

struct ExprNode;

class Expr {
 public:
  Expr() = default;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}

  const Head& head() const;
  const std::vector<Expr>& inputs() const;
  DType dtype() const { return head().dtype; }
  const Extents& shape() const { return head().shape; }
  int rank() const { return static_cast<int>(shape().size()); }
  int64_t size(int dim) const { return shape()[static_cast<size_t>(dim < 0 ? dim + rank() : dim)]; }
  const ExprNode* id() const { return node_.get(); }  // of this object: equal expressions may have several

 private:
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  Head head;
  std::vector<Expr> inputs;
};

// Checks the head against its inputs; throws Error with the first thing that does not fit. All of the functions below
// use it. Shape and dtype are part of the head: see infer().
Expr make_expr(Head head, std::vector<Expr> inputs);

// Shape and dtype of a primitive from its inputs', where they follow from them; else those of the head.
struct Inferred {
  Extents shape;
  DType dtype;
};
Inferred infer(const Head& head, const std::vector<const Head*>& inputs);

Expr input(std::string name, DType dtype, Extents shape);
Expr constant(double value);  // of rank 0; an integer where it is whole, so that integers stay integers
Expr table(std::vector<double> numbers, DType dtype, Extents shape);
Expr iota(Extents shape, int axis);

// Index maps. None of them makes a node where nothing changes.
Expr view(Expr x, IndexMap map, Extents shape);  // throws where an index would be outside
Expr broadcast(Expr x, const Extents& shape);    // dimensions of extent 1, and missing leading ones, are repeated
Expr slice(Expr x, int axis, int64_t start, int64_t count, int64_t step = 1);
Expr transpose(Expr x, int a, int b);
Expr reshape(Expr x, Extents shape);
Expr insert_axis(Expr x, int axis);  // of extent 1
Expr drop_axis(Expr x, int axis);    // the first of it
// The same map as functions on maps, for rules.
IndexMap identity_map(size_t rank);
IndexMap normalised(IndexMap map, const Extents& to);  // equal views have equal maps: an extent of 1 has no factor
bool is_identity(const IndexMap& map, const Extents& from, const Extents& to);
IndexMap compose(const IndexMap& inner, const IndexMap& outer);  // view(view(x, inner), outer) as one

Expr map(Function function, std::vector<Expr> inputs);  // broadcasts them to one shape
Expr cast(Expr x, DType dtype);
Expr reduce(Fold fold, Expr x, int axis);
Expr scan(Expr x, int axis);
Expr gather(Expr x, Expr index, int axis = 0);
Expr scatter(Expr x, Expr index, Expr rows);  // index [n]; rows [n, ...]; along the first dimension

// A call's result of this type.
Expr call(Callee callee, std::vector<Expr> inputs, DType dtype, Extents shape);

// The same expression with other inputs: `replace` returns what stands for an input.
std::vector<Expr> substitute(const std::vector<Expr>& results, const std::function<Expr(const Expr& input)>& replace);

// Short names for definitions.
#define FK_BINARY(name, function)                                                                 \
  inline Expr name(const Expr& a, const Expr& b) { return map(Function::function, {a, b}); }      \
  inline Expr name(const Expr& a, double b) { return map(Function::function, {a, constant(b)}); } \
  inline Expr name(double a, const Expr& b) { return map(Function::function, {constant(a), b}); }
FK_BINARY(operator+, kAdd)
FK_BINARY(operator-, kSubtract)
FK_BINARY(operator*, kMultiply)
FK_BINARY(operator/, kDivide)
FK_BINARY(max, kMaximum)
FK_BINARY(min, kMinimum)
FK_BINARY(floor_divide, kFloorDivide)
FK_BINARY(modulo, kModulo)
FK_BINARY(operator<, kLess)
FK_BINARY(equal, kEqual)
FK_BINARY(operator&, kAnd)
FK_BINARY(operator|, kOr)
#undef FK_BINARY
#define FK_UNARY(name, function) \
  inline Expr name(const Expr& x) { return map(Function::function, {x}); }
FK_UNARY(operator-, kNegate)
FK_UNARY(operator!, kNot)
FK_UNARY(abs, kAbs)
FK_UNARY(exp, kExp)
FK_UNARY(log, kLog)
FK_UNARY(sqrt, kSqrt)
FK_UNARY(sin, kSin)
FK_UNARY(cos, kCos)
FK_UNARY(tanh, kTanh)
FK_UNARY(erfc, kErfc)
FK_UNARY(floor, kFloor)
FK_UNARY(round_even, kRound)
FK_UNARY(is_nan, kIsNan)
#undef FK_UNARY
inline Expr select(const Expr& condition, const Expr& then, const Expr& otherwise) {
  return map(Function::kSelect, {condition, then, otherwise});
}
inline Expr select(const Expr& condition, const Expr& then, double otherwise) {
  return select(condition, then, constant(otherwise));
}
inline Expr select(const Expr& condition, double then, const Expr& otherwise) {
  return select(condition, constant(then), otherwise);
}
inline Expr sum(const Expr& x, int axis) { return reduce(Fold::kSum, x, axis); }
inline Expr largest(const Expr& x, int axis) { return reduce(Fold::kMax, x, axis); }
inline Expr smallest(const Expr& x, int axis) { return reduce(Fold::kMin, x, axis); }
inline Expr mean(const Expr& x, int axis) { return sum(x, axis) / static_cast<double>(x.size(axis)); }
inline Expr logistic(const Expr& x) { return 1 / (1 + exp(-x)); }
// e^x over its sum along the axis.
Expr softmax(const Expr& x, int axis);

// "cast<bf16>(x * sqrt(sum(x * x, 1) / 64)[i, 0])". Views are indexed by i, j, k, ...; numbers are exact.
std::string expr_text(const Expr& expr);
// The same for several results, a line each; what is used more than once has a line and a name of its own.
struct NamedExpr {
  std::string name;
  Expr expr;
};
std::string program_text(const std::vector<NamedExpr>& results);
std::string head_text(const Head& head);  // of a primitive alone: "add", "reduce sum 1", "view [i, 0]"
std::string number_text(double value);    // the shortest text that reads back as the same number

}  // namespace fk::algebra
