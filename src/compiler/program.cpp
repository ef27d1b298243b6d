#include "compiler/program.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/codegen/loop_nest.h"
#include "core/error.h"
#include "core/json.h"
#include "graph/flatten.h"
#include "ops/algebra/definition.h"
#include "ops/registry.h"
#include "sandbox/message.h"

namespace fk {
namespace {

using algebra::Extents;

Shape shape_of(const Extents& extents) { return Shape(std::span<const int64_t>(extents)); }

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const BatchSizes& sizes, const std::function<bool(const GraphNode&)>& open)
      : flat_(flatten(graph)), sizes_(sizes), open_(open), values_(flat_.values.size()) {}

  Program run() {
    for (ValueId id : flat_.inputs) {
      const GraphValue& v = value(id);
      at(id) = algebra::input(v.name, v.dtype, extents_of(v));
    }
    for (const GraphNode& node : flat_.nodes) {
      if (node.is_call())
        add_call(node);
      else
        at(node.outputs[0].value) = moved(node);
    }
    Program program;
    for (const GraphOperand& o : flat_.outputs) program.results.push_back({o.name, at(o.value)});
    return program;
  }

 private:
  const GraphValue& value(ValueId id) const { return flat_.values[static_cast<size_t>(id)]; }
  Expr& at(ValueId id) { return values_[static_cast<size_t>(id)]; }

  Extents extents_of(const GraphValue& v) const {
    Extents extents;
    for (const SymbolicSize& s : v.shape) extents.push_back(s.at(sizes_));
    return extents;
  }

  // A slice, reshape or concatenation.
  Expr moved(const GraphNode& node) {
    Extents shape = extents_of(value(node.outputs[0].value));
    Expr x = at(node.inputs[0].value);
    if (node.kind == GraphNode::Kind::kReshape) return reshape(x, shape);
    if (node.kind == GraphNode::Kind::kSlice) {
      for (size_t d = 0; d < shape.size(); ++d) x = slice(x, static_cast<int>(d), node.starts[d].at(sizes_), shape[d]);
      return x;
    }
    // Each part, at rows behind those of the parts before it; a gather gives 0 outside.
    Expr row = algebra::iota({shape[0]}, 0);
    int64_t start = 0;
    std::optional<Expr> all;
    for (const GraphOperand& o : node.inputs) {
      Expr part = gather(at(o.value), row - static_cast<double>(start));
      Expr inside = !(reshape(row, first_of(shape)) < static_cast<double>(start));
      all = all ? select(inside, part, *all) : part;
      start += at(o.value).size(0);
    }
    return *all;
  }

  static Extents first_of(const Extents& shape) {
    Extents rows(shape.size(), 1);
    rows[0] = shape[0];
    return rows;
  }

  void add_call(const GraphNode& node) {
    if (open_(node) && add_definition(node)) return;
    algebra::Callee callee{node.op, dump_json(fields_to_json(node.init), -1), {}, {}};
    std::vector<Expr> inputs;
    for (const GraphOperand& o : node.inputs) {
      callee.inputs.push_back(o.name);
      inputs.push_back(at(o.value));
    }
    for (const GraphOperand& o : node.outputs) {
      callee.output = o.name;
      at(o.value) = algebra::call(callee, inputs, value(o.value).dtype, extents_of(value(o.value)));
    }
  }

  // False if it is opaque.
  bool add_definition(const GraphNode& node) {
    std::vector<OptView> given = inputs_of_call(node, [&](ValueId id) {
      return TensorSpec{shape_of(at(id).shape()), at(id).dtype()};
    });
    Definition definition = define(node.op, node.init, given);
    if (!definition.opaque().empty()) return false;
    std::vector<Expr> results;
    for (const GraphOperand& o : node.outputs) {
      auto found = std::find_if(definition.results().begin(), definition.results().end(),
                                [&](const algebra::NamedExpr& r) { return r.name == o.name; });
      if (found == definition.results().end())
        throw Error("The definition of {} does not say what '{}' is.", node.op, o.name);
      results.push_back(found->expr);
    }
    results = algebra::substitute(results, [&](const Expr& input) { return at(node.input(input.head().name)->value); });
    for (size_t i = 0; i < results.size(); ++i) at(node.outputs[i].value) = results[i];
    return true;
  }

  GraphBody flat_;
  const BatchSizes& sizes_;
  const std::function<bool(const GraphNode&)>& open_;
  std::vector<Expr> values_;
};

}  // namespace

std::vector<OptView> inputs_of_call(const GraphNode& node, const std::function<TensorSpec(ValueId)>& spec) {
  std::vector<OptView> given;
  for (const ArgSpec& arg : Registry::instance().at(node.op).args) {
    const GraphOperand* input = arg.role == Role::kOutput ? nullptr : node.input(arg.name);
    given.emplace_back();
    if (input != nullptr) given.back() = View(nullptr, spec(input->value));
  }
  return given;
}

BatchSizes varying_sizes() {
  BatchSizes sizes;
  for (size_t i = 0; i < kNumSizeSymbols; ++i) sizes.of[i] = kVaryingExtent + 1000 * static_cast<int64_t>(i) + 3;
  // Their differences vary, too.
  sizes[SizeSymbol::kTokens] += 7 * kVaryingExtent;
  sizes[SizeSymbol::kSequences] += 3 * kVaryingExtent;
  sizes[SizeSymbol::kDecoding] += kVaryingExtent;
  sizes[SizeSymbol::kPageSize] = 16;
  return sizes;
}

std::vector<algebra::Expr> Program::exprs() const {
  std::vector<algebra::Expr> list;
  for (const algebra::NamedExpr& r : results) list.push_back(r.expr);
  return list;
}

Program make_program(const Graph& graph, const BatchSizes& sizes, const std::function<bool(const GraphNode&)>& open) {
  return ProgramBuilder(graph, sizes, open).run();
}

algebra::Values OracleCalls::operator()(const algebra::Expr& call, const std::vector<algebra::Values>& inputs) const {
  const algebra::Callee& callee = call.head().callee;
  std::map<std::string, Tensor, std::less<>> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const algebra::Expr& x = call.inputs()[i];
    auto at = tensors.emplace(callee.inputs[i], Tensor(shape_of(x.shape()), x.dtype())).first;
    algebra::store_values(*inputs[i], at->second.view());
  }
  Fields init = fields_from_json(parse_json(callee.init, "the arguments of " + callee.op));
  std::unique_ptr<Node> node = Registry::instance().at(callee.op).build(init, {.oracle = true});
  node->bind([&](const std::string& name) { return tensors.at(name).view(); });
  std::vector<OptView> args;
  for (const ArgSpec& arg : node->info().args) {
    auto found = tensors.find(arg.name);
    if (arg.role != Role::kOutput) args.push_back(found == tensors.end() ? OptView() : OptView(found->second.view()));
  }
  OutputSpecs outputs = node->outputs(args);
  for (size_t i = 0; args.size() < node->info().args.size(); ++i) {
    args.emplace_back();
    if (!outputs.specs[i]) continue;
    std::string name(node->info().args[args.size() - 1].name);
    args.back() = tensors.emplace(name, Tensor(*outputs.specs[i])).first->second.view();
  }
  std::vector<View> states;
  for (const StateSpec& s : node->own_states()) states.push_back(tensors.at(s.name).view());
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = batch_, .states = states};
  node->call(ctx, args);
  return algebra::load_values(tensors.at(callee.output).view());
}

}  // namespace fk
