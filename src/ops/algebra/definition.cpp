#include "ops/algebra/definition.h"

#include "core/error.h"

namespace fk {
namespace {

algebra::Extents extents_of(const TensorSpec& spec) {
  return {spec.shape.extents().begin(), spec.shape.extents().end()};
}

std::map<std::string_view, detail::DefineFunction>& definitions() {
  static std::map<std::string_view, detail::DefineFunction> all;
  return all;
}

}  // namespace

Definition::Definition(std::span<const ArgSpec> args, Args given, const OutputSpecs& outputs,
                       const std::vector<ParamSpec>& params) {
  size_t next_output = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string name(args[i].name);
    if (args[i].role == Role::kOutput) {
      if (const auto& spec = outputs.specs[next_output++]) outputs_.emplace(name, *spec);
      continue;
    }
    if (!given[i]) continue;
    inputs_.emplace(name, given[i]->spec());
    if (given[i]->dtype() == DType::kF64) real_ = DType::kF64;
    if (args[i].role == Role::kState) outputs_.emplace(name, given[i]->spec());
  }
  for (const ParamSpec& p : params) {
    inputs_.emplace(p.name, p.spec);
    if (p.spec.dtype == DType::kF64) real_ = DType::kF64;
  }
}

bool Definition::has(std::string_view name) const { return inputs_.contains(name); }

Expr Definition::arg(std::string_view name) const {
  auto at = inputs_.find(name);
  if (at == inputs_.end()) throw Error("The call has no '{}', which its definition reads.", name);
  return algebra::input(at->first, at->second.dtype, extents_of(at->second));
}

void Definition::result(std::string_view name, Expr value) {
  auto at = outputs_.find(name);
  if (at == outputs_.end()) throw Error("The call has no output '{}', which its definition gives.", name);
  algebra::Extents shape = extents_of(at->second);
  results_.push_back({at->first, cast(broadcast(std::move(value), shape), at->second.dtype)});
}

Definition define(std::string_view op, const Fields& init, Args given) {
  auto at = definitions().find(op);
  if (at != definitions().end()) return at->second(init, given);
  Definition none({}, {}, {}, {});
  none.leave_opaque("it has no definition");
  return none;
}

bool has_definition(std::string_view op) { return definitions().contains(op); }

namespace detail {

bool register_definition(std::string_view op, DefineFunction define) {
  definitions().emplace(op, define);
  return true;
}

}  // namespace detail
}  // namespace fk
