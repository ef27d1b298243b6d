// create-stubs: writes candidates to start from, correct and slow, with the right signature.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "candidate/folder.h"
#include "candidate/stubs.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/closest.h"
#include "core/error.h"
#include "engine/model.h"
#include "models/catalog.h"

namespace fk {
namespace {

// Names of the operators in the models of a family. One small model is enough: larger ones differ only in counts.
std::set<std::string, std::less<>> operators_of_family(const std::string& family) {
  std::vector<std::string> families;
  for (const CatalogEntry& entry : catalog()) {
    if (std::find(families.begin(), families.end(), entry.family) == families.end()) families.push_back(entry.family);
    if (entry.family != family || !entry.hf_id.empty()) continue;
    std::set<std::string, std::less<>> names;
    std::unique_ptr<Node> root = build_model(entry.config, {});
    walk(*root, [&](const Node& node, int) { names.emplace(node.info().name); });
    return names;
  }
  throw Error("There is no architecture '{}'{} there are {}.", family, did_you_mean(family, families),
              fmt::join(families, ", "));
}

class CreateStubs final : public Verb {
 public:
  CreateStubs()
      : Verb("create-stubs", "Write candidates to start from: correct, slow, ready to edit",
             {"fastkernels create-stubs --target rms_norm", "fastkernels create-stubs --level 1",
              "fastkernels create-stubs --device cuda --target rms_norm   # a .cu file",
              "fastkernels create-stubs --architecture llama --level 2 --out /tmp/my-candidates"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--target", target_, "Only this operator").type_name("OPERATOR");
    flags.option("--level", level_, "Only operators of this level: 1 kernels, 2 blocks, 3 layers, 4 models")
        .range(1, 4);
    flags.option("--architecture", architecture_, "Only operators that models of this family use").type_name("FAMILY");
    flags.option("--out", out_, "Folder to write to; default: the folder of candidates").type_name("DIR");
  }

  bool computes() const override { return false; }

  void run(const CommonOptions& common) override {
    std::vector<const OperatorInfo*> wanted = selected(), without;
    DeviceKind device = common.device.kind;
    for (const OperatorInfo* op : wanted)
      if (!stub_text(*op, device)) without.push_back(op);
    std::string_view kind = device == DeviceKind::kCpu ? "naive body" : "naive CUDA body";
    if (!without.empty() && without.size() == wanted.size())
      throw Error("There is no {} for {}, so nothing was written; its parts have stubs (`fastkernels list`).", kind,
                  names_of(without));
    std::vector<WrittenStub> stubs = write_stubs(wanted, out_.empty() ? candidate_folder() : out_, device);
    if (!common.text()) return table(stubs).print(common);
    for (const WrittenStub& stub : stubs) {
      if (stub.unchanged)
        print_text(fmt::format("{} was there already and is unchanged\n", stub.path));
      else
        print_text(fmt::format("{} written{}\n", stub.path,
                               stub.moved_to.empty() ? "" : "; the file that was there is now " + stub.moved_to));
    }
    if (!without.empty()) print_out(fmt::format("no {} exists for {}\n", kind, names_of(without)));
  }

 private:
  std::vector<const OperatorInfo*> selected() const {
    std::optional<std::set<std::string, std::less<>>> family;
    if (!architecture_.empty()) family = operators_of_family(architecture_);
    if (!target_.empty()) Registry::instance().at(target_);  // an error with the closest name
    std::vector<const OperatorInfo*> list;
    for (const OperatorInfo* op : Registry::instance().operators())
      if ((target_.empty() || op->name == target_) && (level_ == 0 || op->level == level_) &&
          (!family || family->contains(op->name)))
        list.push_back(op);
    if (list.empty()) throw Error("No operator fits all of --target, --level and --architecture; leave one out.");
    return list;
  }

  static std::string names_of(const std::vector<const OperatorInfo*>& ops) {
    std::vector<std::string_view> names;
    for (const OperatorInfo* op : ops) names.push_back(op->name);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  static Table table(const std::vector<WrittenStub>& stubs) {
    Table table({{"level", "LEVEL"}, {"operator", "OPERATOR"}, {"path", "PATH"}, {"moved_to", "MOVED TO"}});
    for (const WrittenStub& stub : stubs)
      table.add_row({stub.op->level, std::string(stub.op->name), stub.path,
                     stub.moved_to.empty() ? Cell() : Cell(stub.moved_to)});
    return table;
  }

  std::string target_, architecture_, out_;
  int level_ = 0;
};

CreateStubs create_stubs;

}  // namespace
}  // namespace fk
