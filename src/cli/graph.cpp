// graph: the values and calls of one pass of a model, with symbolic sizes. Needs no weights and no GPU.
#include <fmt/format.h>

#include <algorithm>

#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "engine/model.h"
#include "graph/graph_dot.h"
#include "graph/graph_json.h"
#include "graph/open_bodies.h"
#include "graph/trace.h"
#include "models/resolve.h"
#include "ops/registry.h"

namespace fk {
namespace {

// Whether a table lists the operand. Weights and states that a composition passes on to its parts are left out; they
// appear where an L1 operator uses them.
bool is_listed(const GraphNode& node, const GraphOperand& operand) {
  if (!node.is_call() || node.level == 1) return true;
  const std::vector<ArgSpec>& args = Registry::instance().at(node.op).args;
  return std::any_of(args.begin(), args.end(), [&](const ArgSpec& a) { return a.name == operand.name; });
}

std::string repeats_text(int64_t repeats) { return repeats == 1 ? "once" : fmt::format("{} times", repeats); }

class GraphVerb final : public Verb {
 public:
  GraphVerb()
      : Verb("graph", "Show the calls of one pass of a model and the values between them, with symbolic sizes",
             {"fastkernels graph --model tiny-llama --phase decode", "fastkernels graph --model llama-3.1-8b --level 3",
              "fastkernels graph --model tiny-qwen3-moe --json > graph.json",
              "fastkernels graph --model tiny-siglip --level 2 --dot | dot -Tsvg > graph.svg"}) {}

  bool computes() const override { return false; }

  void add_flags(FlagSet& flags) override {
    flags
        .option("--model", model_,
                "Directory with a checkpoint, GGUF file, name of the catalog, or Hugging Face id in the local cache")
        .required()
        .type_name("MODEL");
    phase_flag_ =
        &flags.option("--phase", phase_, "Batch of a language model: prompts, one token of each sequence, or both")
             .one_of({"prefill", "decode", "mixed"})
             .show_default();
    flags.option("--level", level_, "Show the inside of operators above this level only").range(1, 4).show_default();
    flags.flag("--dot", dot_, "Print a picture in Graphviz's DOT language instead of tables");
  }

  void run(const CommonOptions& common) override {
    if (dot_ && (common.json || common.csv)) throw UsageError("--dot excludes --json and --csv; choose one of them.");
    ModelSource source = resolve_model(model_);
    GraphPhase phase = phase_from_name(phase_);
    if (is_stateless(source.config.facts.task)) {
      if (phase_flag_->given())
        throw UsageError("{} is {}, whose passes are all of one kind; leave --phase out.", source.name,
                         task_info(source.config.facts.task).words);
      phase = GraphPhase::kEncode;
    }
    std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
    Graph graph = trace_graph(*root, source.name, phase, source.config.facts.dtype);
    if (dot_) return print_text(graph_to_dot(graph, level_));
    if (common.json) return print_out(dump_json(graph_to_json(graph, level_)) + "\n");
    Graph open = open_bodies(graph, level_);
    if (common.csv) return print_csv(nodes_of_all(open).to_csv());
    print_out(summary(graph));
    for (size_t i = open.bodies.size(); i-- > 0;) {
      const GraphBody& body = open.bodies[i];
      print_out(fmt::format("\n({}) {}, level {}, {}\n", i, body.op, body.level, repeats_text(body.repeats)));
      Table table(columns());
      add_rows(body, "", table);
      print_out(table.to_text());
    }
  }

 private:
  static std::vector<Table::Column> columns() {
    return {{"value", "VALUE"}, {"type", "TYPE"}, {"from", "FROM"}, {"path", "PATH"}, {"inputs", "INPUTS"}};
  }

  static std::string summary(const Graph& graph) {
    const GraphBody& root = graph.root();
    auto count = [&](ValueKind kind) {
      return std::count_if(root.values.begin(), root.values.end(), [&](const GraphValue& v) { return v.kind == kind; });
    };
    std::string text = fmt::format("{}: {} kernel calls of one {} pass, {} weights, {} states, {} bodies\n",
                                   graph.model, count_kernel_calls(graph), phase_name(graph.phase),
                                   count(ValueKind::kParameter), count(ValueKind::kState), graph.bodies.size());
    for (SizeSymbol s : used_symbols(graph)) text += fmt::format("{:<5} {}\n", symbol_name(s), symbol_words(s));
    return text;
  }

  static Table nodes_of_all(const Graph& graph) {
    std::vector<Table::Column> all = columns();
    all.insert(all.begin(), {{"body", "BODY"}, {"repeats", "REPEATS"}});
    Table table(all);
    for (size_t i = graph.bodies.size(); i-- > 0;) add_rows(graph.bodies[i], graph.bodies[i].op, table);
    return table;
  }

  // `name`: of the body, as its own column; empty: no such column.
  static void add_rows(const GraphBody& body, const std::string& name, Table& table) {
    auto add = [&](std::vector<Cell> cells) {
      if (!name.empty()) cells.insert(cells.begin(), {Cell(name), Cell(body.repeats)});
      table.add_row(std::move(cells));
    };
    auto type_of = [&](ValueId id) { return value_type_text(body.values[static_cast<size_t>(id)]); };
    auto id_text = [](ValueId id) { return fmt::format("%{}", id); };
    std::vector<bool> listed(body.values.size(), false);
    for (const GraphNode& node : body.nodes)
      for (const GraphOperand& o : node.inputs)
        if (is_listed(node, o)) listed[static_cast<size_t>(o.value)] = true;
    for (ValueId id : body.inputs) {
      const GraphValue& value = body.values[static_cast<size_t>(id)];
      if (listed[static_cast<size_t>(id)] || value.kind == ValueKind::kArgument)
        add({id_text(id), type_of(id), value_kind_name(value.kind), value.name, ""});
    }
    for (const GraphNode& node : body.nodes) {
      std::string inputs, from = node_text(body, node);
      if (node.body != GraphNode::kNoBody) from += fmt::format(" ({})", node.body);
      for (const GraphOperand& o : node.inputs)
        if (is_listed(node, o))
          inputs +=
              fmt::format("{}{}{}", inputs.empty() ? "" : ", ", node.is_call() ? o.name + " " : "", id_text(o.value));
      bool first = true;
      for (const GraphOperand& o : node.outputs) {
        if (!is_listed(node, o)) continue;
        std::string part = node.outputs.size() > 1 && o.name != "out" ? fmt::format("{}: {}", from, o.name) : from;
        add({id_text(o.value), type_of(o.value), part, node.path, first ? inputs : ""});
        first = false;
        listed[static_cast<size_t>(o.value)] = true;
      }
    }
    for (const GraphOperand& o : body.outputs)
      if (listed[static_cast<size_t>(o.value)]) add({id_text(o.value), type_of(o.value), "output", o.name, ""});
  }

  std::string model_, phase_ = "prefill";
  int level_ = 1;
  bool dot_ = false;
  Flag* phase_flag_ = nullptr;
};

GraphVerb graph_verb;

}  // namespace
}  // namespace fk
