// list: the families, models and operators, and which operators each model uses. Needs no weights and no GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "cli/operator_map.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "engine/model.h"
#include "models/catalog.h"
#include "ops/algebra/definition.h"
#include "ops/registry.h"

namespace fk {
namespace {

// One small model per family is enough: larger trees differ only in counts.
std::map<std::string, std::set<std::string, std::less<>>> families_by_operator() {
  std::map<std::string, std::set<std::string, std::less<>>> families;
  std::set<std::string> seen;
  for (const CatalogEntry& entry : catalog()) {
    if (!entry.hf_id.empty() || !seen.insert(entry.family).second) continue;
    for (const auto& [op, count] : operator_uses(entry.config)) families[op].insert(entry.family);
  }
  return families;
}

class List final : public Verb {
 public:
  List()
      : Verb("list", "List families, models and operators",
             {"fastkernels list", "fastkernels list --level 1", "fastkernels list --opaque",
              "fastkernels list --map --json"}) {}

  void add_flags(FlagSet& flags) override {
    flags.flag("--map", map_, "Which operators each model uses, and how many of each");
    flags.option("--level", level_, "Only operators of this level: 1 kernels, 2 blocks, 3 layers, 4 models")
        .range(1, 4);
    flags.flag("--opaque", opaque_, "Only kernels without a definition, which the compiler can call and not look into");
  }

  void run(const CommonOptions& common) override {
    if (map_) return show({{"map", operator_map()}}, common);
    if (opaque_ && level_ > 1)
      throw UsageError("Only operators of level 1 have definitions; leave --level {} out.", level_);
    if (level_ != 0 || opaque_) return show({{"operators", operators()}}, common);
    if (common.csv) return everything().print(common);
    show({{"models", models()}, {"operators", operators()}}, common);
  }

 private:
  using Section = std::pair<std::string, Table>;

  void show(const std::vector<Section>& sections, const CommonOptions& common) const {
    if (common.csv) return print_csv(sections[0].second.to_csv());
    Json json = Json::object();
    for (const auto& [name, table] : sections) {
      if (common.json)
        json[name] = table.to_json();
      else
        print_out(fmt::format("{}{}\n", &name == &sections[0].first ? "" : "\n", table.to_text()));
    }
    if (common.json) print_out(dump_json(json) + "\n");
  }

  // Models and operators as one table, which is what CSV holds: columns that only one kind has are empty for the other.
  Table everything() const {
    Json all = Json::array();
    for (const auto& [kind, rows] :
         {std::pair{"model", models().to_json()}, std::pair{"operator", operators().to_json()}})
      for (Json row : rows) {
        row["kind"] = kind;
        row["name"] = row[kind];
        all.push_back(std::move(row));
      }
    std::vector<Table::Column> columns;
    for (const char* key : {"kind", "name", "level", "class", "families", "implementations", "family", "category",
                            "architecture", "hf_id", "parameters", "layers", "hidden_size"})
      columns.push_back({key, key});
    Table table(columns);
    for (const Json& row : all) {
      std::vector<Cell> cells;
      for (const Table::Column& c : columns) cells.push_back(row.contains(c.key) ? Cell(row[c.key], "") : Cell());
      table.add_row(std::move(cells));
    }
    return table;
  }

  static Table models() {
    Table table({{"model", "MODEL", true},
                 {"family", "FAMILY", true},
                 {"category", "CATEGORY", false, 3},
                 {"architecture", "ARCHITECTURE", false, 2},
                 {"hf_id", "HF ID", true, 1},
                 {"parameters", "PARAMETERS"},
                 {"layers", "LAYERS"},
                 {"hidden_size", "HIDDEN"}});
    for (const CatalogEntry& e : catalog()) {
      int64_t count = 0;
      // Elements, however many of them a weight format stores in a byte.
      ModelConfig unpacked = e.config;
      for (Field& field : unpacked.init)
        if (field.name.ends_with("_format")) field.value = std::string();
      std::unique_ptr<Node> root = build_model(unpacked, {});
      for (const ParamSpec& p : collect_params(*root))
        if (!(e.config.facts.tied_head && p.name == "lm_head.weight")) count += p.spec.shape.numel();
      table.add_row({e.name, e.family, e.category, std::string(e.config.architecture()),
                     e.hf_id.empty() ? Cell() : Cell(e.hf_id),
                     Cell(Json(count), count < 1'000'000 ? fmt::format("{:.1f} K", static_cast<double>(count) * 1e-3)
                                                         : fmt::format("{:.2f} B", static_cast<double>(count) * 1e-9)),
                     e.config.facts.num_hidden_layers, e.config.facts.hidden_size});
    }
    return table;
  }

  Table operators() const {
    auto families = families_by_operator();
    Table table({{"level", "LEVEL"},
                 {"operator", "OPERATOR", true},
                 {"class", "CLASS", false, 1},
                 {"families", "FAMILIES"},
                 {"implementations", "IMPLEMENTATIONS, BEST FIRST"}});
    for (const OperatorInfo* op : Registry::instance().operators()) {
      if (level_ != 0 && op->level != level_) continue;
      if (opaque_ && (op->level != 1 || has_definition(op->name))) continue;
      std::vector<std::string> implementations;
      for (const ImplementationInfo& i : op->implementations) {
        bool here = i.unavailable == nullptr || i.unavailable().empty();
        implementations.push_back(here ? std::string(i.name) : fmt::format("({})", i.name));
      }
      table.add_row({op->level, std::string(op->name), std::string(op->class_name),
                     fmt::format("{}", fmt::join(families[std::string(op->name)], " ")),
                     fmt::format("{}", fmt::join(implementations, " "))});
    }
    return table;
  }

  Table operator_map() const {
    Table table({{"model", "MODEL"}, {"level", "LEVEL"}, {"operator", "OPERATOR"}, {"count", "COUNT"}});
    for (const CatalogEntry& e : catalog()) {
      OperatorUses uses = operator_uses(e.config);
      for (const OperatorInfo* op : Registry::instance().operators()) {
        auto use = uses.find(op->name);
        if (use == uses.end() || (level_ != 0 && op->level != level_)) continue;
        table.add_row({e.name, op->level, std::string(op->name), use->second});
      }
    }
    return table;
  }

  bool map_ = false, opaque_ = false;
  int level_ = 0;
};

List list_verb;

}  // namespace
}  // namespace fk
