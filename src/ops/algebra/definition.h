// Definition: what a call of an operator computes, as expressions of its inputs. An operator whose meaning is algebra
// has one, in its .cpp file beside the oracle:
//
//   void define_scale_rows(const ScaleRows::Init&, Definition& d) { d.result("out", d.arg("x") * d.arg("scale")); }
//   FK_DEFINITION(ScaleRows, define_scale_rows);
//
// tests/conformance/definition_test.cpp holds it against the oracle on every case. An operator without one is opaque:
// the compiler can call it, and not look inside.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/algebra/expr.h"
#include "ops/contract.h"

namespace fk {

using algebra::Expr;

class Definition {
 public:
  // Of a call with these arguments, outputs included, and these weights. Only their shapes and dtypes are read.
  Definition(std::span<const ArgSpec> args, Args given, const OutputSpecs& outputs,
             const std::vector<ParamSpec>& params);

  bool has(std::string_view name) const;  // whether the call has the argument or weight
  Expr arg(std::string_view name) const;  // or weight; an input of that name
  // What is stored to an output, or to an argument that is updated in place: rounded to its dtype, in its shape.
  void result(std::string_view name, Expr value);
  // There is no definition for such a call, for this reason.
  void leave_opaque(std::string reason) { opaque_ = std::move(reason); }

  // f64 in a call in f64, which is a reference, and f32 in all others: the precision of intermediates where it does
  // not follow from the arguments.
  DType real() const { return real_; }

  const std::string& opaque() const { return opaque_; }
  const std::vector<algebra::NamedExpr>& results() const { return results_; }

 private:
  std::map<std::string, TensorSpec, std::less<>> inputs_, outputs_;
  std::vector<algebra::NamedExpr> results_;
  std::string opaque_;
  DType real_ = DType::kF32;
};

// Of a call of this operator: `given` are its inputs and states, in the order of its arguments. If it is opaque,
// opaque() says why.
Definition define(std::string_view op, const Fields& init, Args given);
bool has_definition(std::string_view op);

namespace detail {

using DefineFunction = Definition (*)(const Fields& init, Args given);
bool register_definition(std::string_view op, DefineFunction define);

template <Contract T, void (*define)(const typename T::Init&, Definition&)>
Definition define_call(const Fields& init, Args given) {
  auto typed = from_fields<typename T::Init>(init);
  Definition definition(T::kArgs, given, T::outputs(typed, given), T::params(typed));
  define(typed, definition);
  return definition;
}

}  // namespace detail

#define FK_DEFINITION(T, define)                      \
  [[maybe_unused]] static const bool fk_defined_##T = \
      ::fk::detail::register_definition(T::kName, &::fk::detail::define_call<T, define>)

}  // namespace fk
