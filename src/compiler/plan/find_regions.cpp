#include "compiler/plan/find_regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "compiler/codegen/cuda_kernel.h"
#include "core/error.h"
#include "core/json.h"
#include "ops/algebra/definition.h"
#include "sandbox/message.h"

namespace fk {
namespace {

constexpr size_t kNoNode = static_cast<size_t>(-1);
constexpr int64_t kLargestInput = int64_t{1} << 24;  // elements of a weight: results with larger ones are not checked
constexpr int64_t kLargestRow = 65536;  // elements of all results that exist for one row: 256 KiB of a thread's stack

class RegionFinder {
 public:
  RegionFinder(const GraphBody& flat, DeviceKind device, const std::set<size_t>& left_out)
      : flat_(flat),
        device_(device),
        left_out_(left_out),
        programs_(flat),
        maker_(flat.values.size(), kNoNode),
        readers_(flat.values.size()),
        in_state_(flat.values.size(), false),
        group_(flat.nodes.size(), -1) {
    for (ValueId id : flat.inputs) in_state_[at(id)] = value(id).kind == ValueKind::kState;
    for (size_t n = 0; n < flat.nodes.size(); ++n) {
      const GraphNode& node = flat.nodes[n];
      for (const GraphOperand& o : node.outputs) {
        maker_[at(o.value)] = n;
        const GraphOperand* updated = node.input(o.name);
        in_state_[at(o.value)] = updated != nullptr && in_state_[at(updated->value)];
      }
      for (const GraphOperand& o : node.inputs) readers_[at(o.value)].push_back(n);
    }
    for (const GraphOperand& o : flat.outputs) readers_[at(o.value)].push_back(kNoNode);
  }

  std::vector<FoundRegion> run() {
    for (size_t n = 0; n < flat_.nodes.size(); ++n) {
      const GraphNode& node = flat_.nodes[n];
      if (!node.is_call() || node.level != 1 || !has_definition(node.op) || reads_too_much(node)) continue;
      if (left_out_.count(n) > 0) continue;
      std::optional<FoundRegion> alone = made({n});
      if (!alone) continue;
      if (join(n)) continue;
      group_[n] = static_cast<int>(groups_.size());
      groups_.push_back(std::move(*alone));
    }
    std::vector<FoundRegion> found;
    for (FoundRegion& g : groups_)
      if (!g.region.nodes.empty()) found.push_back(std::move(g));
    std::sort(found.begin(), found.end(),
              [](const FoundRegion& a, const FoundRegion& b) { return a.region.nodes.back() < b.region.nodes.back(); });
    return found;
  }

  const std::vector<RuleStatistics>& rules() const { return programs_.rules(); }

 private:
  static size_t at(ValueId id) { return static_cast<size_t>(id); }
  const GraphValue& value(ValueId id) const { return flat_.values[at(id)]; }
  bool is_move(size_t n) const { return n != kNoNode && !flat_.nodes[n].is_call(); }

  // The value that slices and reshapes lead to.
  ValueId base(ValueId id) const {
    for (size_t m = maker_[at(id)]; is_move(m) && flat_.nodes[m].kind != GraphNode::Kind::kConcat; m = maker_[at(id)])
      id = flat_.nodes[m].inputs[0].value;
    return id;
  }

  bool reads_too_much(const GraphNode& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const GraphOperand& o) {
      int64_t elements = 1;
      for (const SymbolicSize& s : value(o.value).shape) elements *= std::max<int64_t>(1, s.constant);
      return value(o.value).kind == ValueKind::kParameter && elements > kLargestInput;
    });
  }

  std::vector<size_t> calls_of(const FoundRegion& g) const {
    std::vector<size_t> calls;
    for (size_t n : g.region.nodes)
      if (flat_.nodes[n].is_call()) calls.push_back(n);
    return calls;
  }

  // Whether the call could become part of groups before it.
  bool join(size_t n) {
    std::set<int> near;
    for (const GraphOperand& o : flat_.nodes[n].inputs) {
      ValueId from = base(o.value);
      if (value(from).kind == ValueKind::kParameter || value(from).kind == ValueKind::kBatch) continue;
      if (size_t maker = maker_[at(from)]; maker != kNoNode && group_[maker] >= 0) near.insert(group_[maker]);
      // Calls that read the same value: query and key of one product.
      if (maker_[at(from)] == kNoNode) continue;
      for (size_t reader : calls_that_read(from))
        if (reader != kNoNode && reader < n && group_[reader] >= 0) near.insert(group_[reader]);
    }
    // All of them as one, else the latest that can.
    if (near.size() > 1 && take(n, {near.begin(), near.end()})) return true;
    for (auto g = near.rbegin(); g != near.rend(); ++g)
      if (take(n, {*g})) return true;
    return false;
  }

  // Makes the call and these groups one, if they can be.
  bool take(size_t n, const std::vector<int>& groups) {
    std::vector<size_t> calls;
    for (int g : groups)
      for (size_t c : calls_of(groups_[static_cast<size_t>(g)])) calls.push_back(c);
    std::sort(calls.begin(), calls.end());
    if (read_between(calls, n)) return false;
    calls.push_back(n);
    std::optional<FoundRegion> joined = made(calls);
    if (!joined) return false;
    for (size_t c : calls) group_[c] = groups[0];
    for (int g : groups) groups_[static_cast<size_t>(g)] = {};
    groups_[static_cast<size_t>(groups[0])] = std::move(*joined);
    return true;
  }

  // Calls that read a value or a part of it; kNoNode where the body returns it.
  std::vector<size_t> calls_that_read(ValueId id) const {
    std::vector<size_t> calls;
    for (size_t r : readers_[at(id)]) {
      if (!is_move(r)) {
        calls.push_back(r);
        continue;
      }
      std::vector<size_t> more = calls_that_read(flat_.nodes[r].outputs[0].value);
      calls.insert(calls.end(), more.begin(), more.end());
    }
    return calls;
  }

  // Whether a call outside, before node n, reads what these compute.
  bool read_between(const std::vector<size_t>& calls, size_t n) const {
    for (size_t c : calls)
      for (const GraphOperand& o : flat_.nodes[c].outputs)
        for (size_t r : calls_that_read(o.value))
          if (r != kNoNode && r < n && std::find(calls.begin(), calls.end(), r) == calls.end()) return true;
    return false;
  }

  // The region of these calls; nothing where it has no loops.
  std::optional<FoundRegion> made(const std::vector<size_t>& calls) {
    FoundRegion found;
    Region& region = found.region;
    std::set<size_t> inside(calls.begin(), calls.end());
    auto is_inside = [&](ValueId id) { return maker_[at(id)] != kNoNode && inside.count(maker_[at(id)]) > 0; };
    std::set<size_t> nodes = inside;
    for (size_t c : calls) {
      for (const GraphOperand& o : flat_.nodes[c].inputs) {
        if (!is_inside(base(o.value))) {
          size_t maker = maker_[at(base(o.value))];
          // A concatenation of what the region itself computes.
          if (is_move(maker) && std::any_of(flat_.nodes[maker].inputs.begin(), flat_.nodes[maker].inputs.end(),
                                            [&](const GraphOperand& part) { return is_inside(base(part.value)); }))
            return {};
          if (std::find(region.inputs.begin(), region.inputs.end(), o.value) == region.inputs.end())
            region.inputs.push_back(o.value);
          continue;
        }
        for (ValueId v = o.value; !is_inside(v); v = flat_.nodes[maker_[at(v)]].inputs[0].value)
          nodes.insert(maker_[at(v)]);
      }
      for (const GraphOperand& o : flat_.nodes[c].outputs) {
        std::vector<size_t> readers = calls_that_read(o.value);
        bool leaves = std::any_of(readers.begin(), readers.end(), [&](size_t r) { return inside.count(r) == 0; });
        if (!leaves && !in_state_[at(o.value)]) continue;
        Region::Output output{o.value};
        if (in_state_[at(o.value)]) {
          ValueId before = flat_.nodes[c].input(o.name)->value;
          auto input = std::find(region.inputs.begin(), region.inputs.end(), before);
          if (input == region.inputs.end()) return {};
          output.updates = static_cast<int>(input - region.inputs.begin());
        }
        region.outputs.push_back(output);
      }
    }
    region.nodes.assign(nodes.begin(), nodes.end());
    // Those of all layers but the first are known.
    auto [known, is_new] = kinds_.try_emplace(structure_of(region));
    Lowered& lowered = known->second;
    if (is_new) lowered = lower(region, static_cast<int>(kinds_.size()) - 1);
    if (lowered.kind < 0) return {};
    found.program = lowered.program;
    found.loops = lowered.loops;
    found.kind = lowered.kind;
    return found;
  }

  // What is the same for regions with the same structure. A negative kind: they have no loops.
  struct Lowered {
    int kind = -1;
    RegionProgram program;
    LoopProgram loops;
  };

  Lowered lower(const Region& region, int kind) {
    Lowered found;
    found.program = programs_.of(region);
    if (!found.program.refusal.empty()) return found;
    found.loops = lower_to_row_loops(found.program.results, found.program.locals);
    if (!found.loops.refusal.empty()) return found;
    int64_t row = 0;
    for (const auto& [name, array] : found.loops.locals) row += array.elements;
    if (row > kLargestRow || found.loops.nests.empty() || found.loops.nests[0].leads[0] < kVaryingExtent) return found;
    if (device_ == DeviceKind::kCuda && !cuda_refusal(found.loops, updated_arrays(region)).empty()) return found;
    // Rows are stored to a state, or in order.
    for (size_t i = 0; i < region.outputs.size(); ++i) {
      auto use = found.loops.arrays.find("y" + std::to_string(i));
      bool scattered = use != found.loops.arrays.end() && use->second.dense;
      if (scattered != (region.outputs[i].updates >= 0)) return found;
    }
    found.kind = kind;
    return found;
  }

  // Everything that its kernel follows from: its nodes, with values numbered in the order in which they appear.
  std::string structure_of(const Region& region) {
    std::string text;
    std::map<ValueId, size_t> numbers;
    auto add = [&](ValueId id) {
      auto [at, is_new] = numbers.try_emplace(id, numbers.size());
      text += fmt::format("{},", at->second);
      if (!is_new) return;
      const GraphValue& v = value(id);
      text += fmt::format("{}/{}/", static_cast<int>(v.dtype), v.kind == ValueKind::kParameter ? 1 : 0);
      for (const SymbolicSize& s : v.shape) add_size(text, s);
    };
    for (size_t n : region.nodes) {
      const GraphNode& node = flat_.nodes[n];
      text += fmt::format("{}:", call_number(node));
      for (const SymbolicSize& s : node.starts) add_size(text, s);
      for (const GraphOperand& o : node.inputs) {
        text += o.name + "=";
        add(o.value);
      }
      text += ">";
      for (const GraphOperand& o : node.outputs) {
        text += o.name + "=";
        add(o.value);
      }
    }
    text += "|";
    for (ValueId id : region.inputs) add(id);
    text += "|";
    for (const Region::Output& o : region.outputs) {
      add(o.value);
      text += fmt::format("{};", o.updates);
    }
    return text;
  }
  static void add_size(std::string& text, const SymbolicSize& size) {
    text += fmt::format("{}", size.constant);
    for (int64_t f : size.factors) text += f == 0 ? "_" : fmt::format("*{}", f);
    text += ",";
  }
  // The same number for the same operator with the same constructor arguments.
  int call_number(const GraphNode& node) {
    std::string call = fmt::format("{} {}", static_cast<int>(node.kind), node.op);
    if (!node.init.empty()) call += dump_json(fields_to_json(node.init), -1);
    return calls_.try_emplace(std::move(call), static_cast<int>(calls_.size())).first->second;
  }

  const GraphBody& flat_;
  const DeviceKind device_;
  const std::set<size_t>& left_out_;
  RegionPrograms programs_;
  std::vector<size_t> maker_;                 // by value
  std::vector<std::vector<size_t>> readers_;  // by value; kNoNode: the body returns it
  std::vector<bool> in_state_;                // by value: its memory is a state's
  std::vector<int> group_;                    // by node
  std::vector<FoundRegion> groups_;
  std::unordered_map<std::string, Lowered> kinds_;  // by structure
  std::unordered_map<std::string, int> calls_;
};

}  // namespace

std::vector<FoundRegion> find_regions(const GraphBody& flat, std::vector<RuleStatistics>* rules, DeviceKind device,
                                      const std::set<size_t>& left_out) {
  RegionFinder finder(flat, device, left_out);
  std::vector<FoundRegion> found = finder.run();
  if (rules != nullptr) *rules = finder.rules();
  return found;
}

std::map<std::string, std::string> updated_arrays(const Region& region) {
  std::map<std::string, std::string> updated;
  for (size_t i = 0; i < region.outputs.size(); ++i)
    if (region.outputs[i].updates >= 0)
      updated["y" + std::to_string(i)] = "x" + std::to_string(region.outputs[i].updates);
  return updated;
}

FoundRegion region_in_graph(const GraphBody& flat, Region region) {
  FoundRegion found;
  found.program = RegionPrograms(flat).of(region);
  found.region = std::move(region);
  if (!found.program.refusal.empty()) throw Error("{}", found.program.refusal);
  found.loops = lower_to_row_loops(found.program.results, found.program.locals);
  if (!found.loops.refusal.empty()) throw Error("A region has no loops: {}.", found.loops.refusal);
  return found;
}

}  // namespace fk
