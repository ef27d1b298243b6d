#include "compiler/plan/region_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/attention_pattern.h"
#include "compiler/codegen/c_text.h"
#include "compiler/codegen/cut_reductions.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/codegen/statement_text.h"
#include "compiler/program.h"
#include "core/error.h"
#include "core/json.h"
#include "ops/algebra/definition.h"
#include "ops/registry.h"
#include "sandbox/message.h"

namespace fk {
using algebra::Extents;

namespace {

// What is stored, before it is rounded: the exact result, from which both a kernel and the calls differ by a rounding.
Expr without_last_rounding(const Expr& e) {
  using algebra::Primitive;
  if (e.head().is(Primitive::kCast) && dtype_is_float(e.dtype())) return without_last_rounding(e.inputs()[0]);
  if (e.head().is(Primitive::kReshape)) return reshape(without_last_rounding(e.inputs()[0]), e.shape());
  if (e.head().is(Primitive::kScatter))
    return scatter(cast(e.inputs()[0], DType::kF64), e.inputs()[1],
                   cast(without_last_rounding(e.inputs()[2]), DType::kF64));
  return e;
}

}  // namespace

Extents RegionPrograms::extents(ValueId id) const {
  Extents extents;
  for (const SymbolicSize& s : value(id).shape) extents.push_back(s.at(sizes_));
  return extents;
}

// A slice or reshape of an expression.
Expr RegionPrograms::moved(const GraphNode& node, Expr x) const {
  Extents shape = extents(node.outputs[0].value);
  if (node.kind == GraphNode::Kind::kReshape) return reshape(x, shape);
  for (size_t d = 0; d < shape.size(); ++d) x = slice(x, static_cast<int>(d), node.starts[d].at(sizes_), shape[d]);
  return x;
}

const RegionPrograms::CallMeaning& RegionPrograms::call_meaning(const GraphNode& node) {
  std::string key = node.op + dump_json(fields_to_json(node.init), -1);
  for (const GraphOperand& o : node.inputs) {
    key += fmt::format(" {} {}", o.name, dtype_name(value(o.value).dtype));
    for (int64_t e : extents(o.value)) key += fmt::format(",{}", e);
  }
  auto [at, is_new] = calls_.try_emplace(key);
  CallMeaning& call = at->second;
  if (!is_new) return call;
  std::vector<OptView> given = inputs_of_call(node, [&](ValueId id) {
    Extents shape = extents(id);
    return TensorSpec{Shape(std::span<const int64_t>(shape)), value(id).dtype};
  });
  Definition definition = define(node.op, node.init, given);
  call.refusal = definition.opaque();
  if (!call.refusal.empty()) return call;
  // Attention has a skeleton of its own, which knows it by the form in which it is defined.
  if (definition.results().size() == 1 && match_attention(definition.results()[0].expr)) {
    call.results = definition.results();
    return call;
  }
  call.results = cheapest(definition.results(), &rules_);
  // The cheapest by elements may be one that has no loops.
  auto has_loops = [](const std::vector<algebra::NamedExpr>& results) {
    std::set<std::string> cuts;
    for (const algebra::NamedExpr& r : results)
      if (is_cut(r.name)) cuts.insert(r.name);
    return lower_to_row_loops(results, cuts).refusal.empty();
  };
  try {
    call.results = cut_overwritten_reads(call.results);
    if (has_loops(call.results)) return call;
    for (const auto& other : {definition.results(), cut_reductions(call.results), cut_reductions(definition.results())})
      if (std::vector<algebra::NamedExpr> safe = cut_overwritten_reads(other); has_loops(safe)) {
        call.results = std::move(safe);
        break;
      }
  } catch (const NoLoops& why) {
    call.refusal = why.what();
  }
  return call;
}

Product RegionPrograms::product_of(const GraphNode& node, const Region& region,
                                   const std::map<ValueId, Expr>& now) const {
  Product product;
  auto input_named = [&](std::string_view operand) {
    auto at = std::find(region.inputs.begin(), region.inputs.end(), node.input(operand)->value);
    return at == region.inputs.end() ? std::string() : fmt::format("x{}", at - region.inputs.begin());
  };
  const ValueId out = node.outputs[0].value;
  product.x = now.at(node.input("x")->value);
  product.weight = input_named("weight");
  if (node.input("bias") != nullptr) product.bias = input_named("bias");
  product.dtype = value(node.input("weight")->value).dtype;
  product.stored = value(out).dtype;
  const Extents weight = extents(node.input("weight")->value);
  product.features = weight[0];
  product.length = weight[1];
  for (size_t i = 0; i < region.outputs.size(); ++i)
    if (region.outputs[i].value == out) product.output = fmt::format("y{}", i);
  return product;
}

RegionProgram RegionPrograms::of(const Region& region, const std::set<size_t>& nodes, std::vector<Product>* products) {
  RegionProgram program;
  std::map<ValueId, Expr> now;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const GraphValue& v = value(region.inputs[i]);
    now[region.inputs[i]] = algebra::input(fmt::format("x{}", i), v.dtype, extents(region.inputs[i]));
  }
  for (size_t index : region.nodes) {
    const GraphNode& node = flat_.nodes[index];
    if (!node.is_call()) {
      now[node.outputs[0].value] = moved(node, now.at(node.inputs[0].value));
      continue;
    }
    if (products != nullptr && nodes.count(index) > 0) {
      Product& product = products->emplace_back(product_of(node, region, now));
      product.name = fmt::format("p{}", products->size() - 1);
      now[node.outputs[0].value] = algebra::input(product.name, product.stored, extents(node.outputs[0].value));
      continue;
    }
    const CallMeaning& call = call_meaning(node);
    if (!call.refusal.empty()) {
      program.refusal = fmt::format("{}: {}", node.op, call.refusal);
      return program;
    }
    std::vector<Expr> exprs;
    for (const algebra::NamedExpr& r : call.results) exprs.push_back(r.expr);
    std::map<std::string, std::string> cuts;  // names in the program
    for (const algebra::NamedExpr& r : call.results)
      if (is_cut(r.name)) cuts.emplace(r.name, fmt::format("r{}", program.locals.size() + cuts.size()));
    exprs = algebra::substitute(exprs, [&](const Expr& x) {
      if (auto cut = cuts.find(x.head().name); cut != cuts.end())
        return algebra::input(cut->second, x.dtype(), x.shape());
      return now.at(node.input(x.head().name)->value);
    });
    for (size_t k = 0; k < call.results.size(); ++k)
      if (auto cut = cuts.find(call.results[k].name); cut != cuts.end()) {
        program.locals.insert(cut->second);
        program.results.push_back({cut->second, exprs[k]});
      }
    // A state is updated when everything that the call reads of it has been read.
    std::vector<GraphOperand> outputs = node.outputs;
    std::stable_partition(outputs.begin(), outputs.end(),
                          [&](const GraphOperand& o) { return node.input(o.name) == nullptr; });
    for (const GraphOperand& o : outputs) {
      auto found = std::find_if(call.results.begin(), call.results.end(),
                                [&](const algebra::NamedExpr& r) { return r.name == o.name; });
      if (found == call.results.end()) throw Error("The definition of {} does not say what '{}' is.", node.op, o.name);
      auto out = std::find_if(region.outputs.begin(), region.outputs.end(),
                              [&](const Region::Output& r) { return r.value == o.value; });
      const bool local = out == region.outputs.end();
      std::string name =
          local ? fmt::format("r{}", program.locals.size()) : fmt::format("y{}", out - region.outputs.begin());
      if (local) program.locals.insert(name);
      const Expr& expr = exprs[static_cast<size_t>(found - call.results.begin())];
      program.results.push_back({name, expr});
      now[o.value] = algebra::input(name, expr.dtype(), expr.shape());
    }
  }
  try {
    refuse_overwritten_reads(program.results);
  } catch (const NoLoops& why) {
    program.refusal = why.what();
  }
  return program;
}

std::vector<algebra::NamedExpr> RegionPrograms::meaning(const RegionProgram& program) {
  std::map<std::string, Expr> known;
  std::vector<algebra::NamedExpr> results;
  for (const algebra::NamedExpr& r : program.results) {
    Expr whole = algebra::substitute({r.expr}, [&](const Expr& x) {
      auto found = known.find(x.head().name);
      return found == known.end() ? x : found->second;
    })[0];
    known[r.name] = whole;
    if (program.locals.count(r.name) == 0) results.push_back({r.name, without_last_rounding(whole)});
  }
  return results;
}

}  // namespace fk
