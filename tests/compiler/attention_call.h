// Cases of operators with attention as calls of a graph, and the kernels that are generated for them in the examination
// that all implementations pass.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/plan/generated_kernel.h"
#include "tests/conformance/trial.h"

namespace fk {

inline constexpr const char* kAttentionOperators[] = {"flash_attn_decode", "flash_attn_prefill", "attention_pool"};

// Extents of a batch are symbols, those of heads numbers.
inline std::vector<SymbolicSize> symbolic_shape(std::string_view op, std::string_view arg, const Shape& shape) {
  auto symbol = [](SizeSymbol s, int64_t more = 0) {
    SymbolicSize size(more);
    size.factors[static_cast<size_t>(s)] = 1;
    return size;
  };
  std::vector<SymbolicSize> sizes;
  for (int d = 0; d < shape.rank(); ++d) sizes.emplace_back(shape[d]);
  const bool pages = shape.rank() == 4;
  if (arg.starts_with("cu_seqlens")) {
    sizes[0] = symbol(SizeSymbol::kSequences, 1);
  } else if (arg == "cache_seqlens" || (arg == "q" && op == "flash_attn_decode")) {
    sizes[0] = symbol(SizeSymbol::kSequences);
  } else if (arg == "block_table") {
    sizes = {symbol(SizeSymbol::kSequences), symbol(SizeSymbol::kPages)};
  } else if (pages) {
    sizes[0] = symbol(SizeSymbol::kBlocks);
    sizes[1] = symbol(SizeSymbol::kPageSize);
  } else if (arg == "k" || arg == "v") {
    sizes[0] = symbol(SizeSymbol::kLogits);  // keys without pages: a number of their own
  } else if (arg != "query" && arg != "sinks") {
    sizes[0] = symbol(SizeSymbol::kTokens);
  }
  return sizes;
}

// Calls that have nothing to do with each other, and their kernels.
class AttentionCalls {
 public:
  // All cases of this dtype with at most so many operations.
  AttentionCalls(DType dtype, double most_flops, DeviceKind device = DeviceKind::kCuda) {
    for (const char* name : kAttentionOperators) {
      const OperatorInfo& info = Registry::instance().at(name);
      for (const OperatorInfo::ErasedCase& which : info.cases()) {
        Workload workload = which.workload;
        workload.dtype = dtype;
        if (info.cost(which.init, workload).matrix_flops <= most_flops) cases.push_back({&info, which, dtype});
      }
    }
    for (const AttentionCase& c : cases) add(c);
    std::vector<FoundRegion> regions = find_regions(flat, nullptr, device);
    for (FoundRegion& r : regions) {
      const size_t node = r.region.nodes[0];
      if (r.attention != nullptr) cases[node].found = std::make_unique<FoundRegion>(std::move(r));
    }
    for (AttentionCase& c : cases)
      if (c.found != nullptr) c.draft = draft_of(*c.found, flat, device);
  }

  struct AttentionCase {
    const OperatorInfo* info;
    OperatorInfo::ErasedCase which;
    DType dtype;
    std::unique_ptr<FoundRegion> found = nullptr;  // nullptr: it has no kernel
    RegionDraft draft = {};
  };
  std::vector<AttentionCase> cases;  // by number of the node
  GraphBody flat;

  // Right, or refused for the one reason there is: pages of another size. Gives whether it was examined.
  bool examine(const AttentionCase& c, std::shared_ptr<RegionKernel> kernel, conformance::Placement placement,
               Device device, int threads = 1) {
    const conformance::Problem problem = conformance::make_problem(*c.info, c.which, c.dtype);
    return examine(c, problem, std::move(kernel), placement, device, threads);
  }
  bool examine(const AttentionCase& c, const conformance::Problem& problem, std::shared_ptr<RegionKernel> kernel,
               conformance::Placement placement, Device device, int threads = 1) {
    ThreadPool pool(threads);
    const conformance::Verdict verdict =
        conformance::examine(problem, subject(c, std::move(kernel)), placement, pool, device);
    for (const std::string& fault : verdict.faults)
      ADD_FAILURE() << c.info->name << " '" << c.which.label << "', " << dtype_name(c.dtype) << ", "
                    << conformance::placement_name(placement) << ": " << fault << "\n"
                    << c.draft.expression;
    EXPECT_EQ(verdict.refusal, c.which.workload.page_size == 16 ? "" : "it was written for other heads or pages");
    return verdict.refusal.empty();
  }

 private:
  void add(const AttentionCase& c) {
    Workload workload = c.which.workload;
    workload.dtype = c.dtype;
    const Fields init = conformance::with_dtype(c.which.init, c.dtype);
    GraphNode node{.op = std::string(c.info->name), .path = c.which.label, .level = 1, .init = init};
    auto next = [&] { return static_cast<ValueId>(flat.values.size()); };
    auto add_input = [&](std::string_view name, const TensorSpec& spec, ValueKind kind) {
      flat.inputs.push_back(next());
      node.inputs.push_back({std::string(name), next()});
      flat.values.push_back({kind, std::string(name), spec.dtype, symbolic_shape(node.op, name, spec.shape)});
    };
    const Inputs inputs = c.info->inputs(init, workload);
    std::vector<OptView> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      given.push_back(inputs[i] ? OptView(View(nullptr, inputs[i]->spec)) : std::nullopt);
      if (inputs[i]) add_input(c.info->args[i].name, inputs[i]->spec, ValueKind::kArgument);
    }
    const std::unique_ptr<Node> oracle = c.info->build(init, {.oracle = true});
    for (const ParamSpec& p : collect_params(*oracle)) add_input(p.name, p.spec, ValueKind::kParameter);
    const TensorSpec out = *oracle->outputs(given).specs[0];
    // As many rows as there are queries; a pool has one for each sequence.
    const bool pool = node.op == "attention_pool";
    std::vector<SymbolicSize> shape = symbolic_shape(node.op, pool ? "cache_seqlens" : "q", out.shape);
    node.outputs.push_back({"out", next()});
    flat.outputs.push_back({c.which.label, next()});
    flat.values.push_back({ValueKind::kResult, "", out.dtype, shape});
    flat.nodes.push_back(std::move(node));
  }

  conformance::Subject subject(const AttentionCase& c, std::shared_ptr<RegionKernel> kernel) {
    auto inputs = [this, &c](Args args) {
      std::vector<View> views;
      const GraphNode& node = flat.nodes[c.found->region.nodes[0]];
      for (ValueId id : c.found->region.inputs)
        for (const GraphOperand& o : node.inputs) {
          if (o.value != id) continue;
          const auto arg = std::find_if(c.info->args.begin(), c.info->args.end(),
                                        [&](const ArgSpec& a) { return a.name == o.name; });
          views.push_back(arg != c.info->args.end() ? *args[static_cast<size_t>(arg - c.info->args.begin())]
                                                    : weights_(o.name));
        }
      return views;
    };
    return {[this](const Node::Lookup& all) { weights_ = all; },
            [inputs, kernel](Context& ctx, Args args) {
              const View out = *args.back();
              kernel->run(ctx, inputs(args), {&out, 1});
            },
            [inputs, kernel](Args args) {
              const View out = *args.back();
              return std::string(kernel->refuse(inputs(args), {&out, 1}));
            }};
  }

  Node::Lookup weights_;
};

// What a kernel gives for these arguments of the operator, outputs last.
inline Tensor result_of(const AttentionCalls& calls, const AttentionCalls::AttentionCase& c, RegionKernel& kernel,
                        const std::vector<OptView>& given, const TensorSpec& spec) {
  const GraphNode& node = calls.flat.nodes[c.found->region.nodes[0]];
  std::vector<View> inputs;
  for (ValueId id : c.found->region.inputs)
    for (const GraphOperand& o : node.inputs)
      for (size_t i = 0; i < given.size(); ++i)
        if (o.value == id && c.info->args[i].name == o.name) inputs.push_back(*given[i]);
  Tensor out(spec);
  const View view = out.view();
  EXPECT_EQ(kernel.refuse(inputs, {&view, 1}), "");
  ThreadPool pool(2);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = nullptr, .states = {}};
  kernel.run(ctx, inputs, {&view, 1});
  return out;
}

}  // namespace fk
