#include "compiler/plan/find_regions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "compiler/codegen/cuda_kernel.h"
#include "compiler/plan/find_products.h"
#include "compiler/plan/region_maker.h"
#include "core/error.h"
#include "ops/algebra/definition.h"
#include "ops/registry.h"

namespace fk {
namespace {

constexpr size_t kNoNode = RegionMaker::kNoNode;
constexpr int64_t kLargestInput = int64_t{1} << 24;  // elements of a weight: results with larger ones are not checked
constexpr int64_t kLargestRow = 65536;  // elements of all results that exist for one row: 256 KiB of a thread's stack

// A region that is attention, and its arrays as those of loops; nullptr: it is something else.
std::shared_ptr<const AttentionProgram> attention_in(const GraphBody& flat, const Region& region,
                                                     const RegionProgram& program, LoopProgram& loops) {
  auto attention = std::make_shared<AttentionProgram>(lower_attention(program.results));
  if (!attention->refusal.empty()) return nullptr;
  const GraphNode& call = flat.nodes[region.nodes.back()];
  const Tolerance allowed = Registry::instance().at(call.op).tolerance(call.init, attention->dtype);
  attention->rounds_weights = allowed.of_scale >= dtype_epsilon(attention->dtype) / 2;
  loops.arrays = attention->arrays;
  return attention;
}

class RegionFinder {
 public:
  RegionFinder(const GraphBody& flat, DeviceKind device, const std::set<size_t>& left_out)
      : flat_(flat),
        device_(device),
        left_out_(left_out),
        maker_(flat),
        programs_(flat),
        group_(flat.nodes.size(), -1) {}

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
  const GraphValue& value(ValueId id) const { return maker_.value(id); }

  bool reads_too_much(const GraphNode& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const GraphOperand& o) {
      int64_t elements = 1;
      for (const SymbolicSize& s : value(o.value).shape) elements *= std::max<int64_t>(1, s.constant);
      return value(o.value).kind == ValueKind::kParameter && elements > kLargestInput;
    });
  }

  // Whether the call could become part of groups before it.
  bool join(size_t n) {
    std::set<int> near;
    for (const GraphOperand& o : flat_.nodes[n].inputs) {
      ValueId from = maker_.base(o.value);
      if (value(from).kind == ValueKind::kParameter || value(from).kind == ValueKind::kBatch) continue;
      if (size_t maker = maker_.maker(from); maker != kNoNode && group_[maker] >= 0) near.insert(group_[maker]);
      // Calls that read the same value: query and key of one product.
      if (maker_.maker(from) == kNoNode) continue;
      for (size_t reader : maker_.calls_that_read(from))
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
      for (size_t c : maker_.calls_of(groups_[static_cast<size_t>(g)].region)) calls.push_back(c);
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

  // Whether a call outside, before node n, reads what these compute.
  bool read_between(const std::vector<size_t>& calls, size_t n) const {
    for (size_t c : calls)
      for (const GraphOperand& o : flat_.nodes[c].outputs)
        for (size_t r : maker_.calls_that_read(o.value))
          if (r != kNoNode && r < n && std::find(calls.begin(), calls.end(), r) == calls.end()) return true;
    return false;
  }

  // The region of these calls; nothing where it has no loops.
  std::optional<FoundRegion> made(const std::vector<size_t>& calls) {
    std::optional<Region> region = maker_.region_of(calls);
    if (!region) return {};
    FoundRegion found;
    found.region = std::move(*region);
    // Those of all layers but the first are known.
    auto [known, is_new] = kinds_.try_emplace(maker_.structure_of(found.region));
    Lowered& lowered = known->second;
    if (is_new) lowered = lower(found.region, static_cast<int>(kinds_.size()) - 1);
    if (lowered.kind < 0) return {};
    found.program = lowered.program;
    found.loops = lowered.loops;
    found.attention = lowered.attention;
    found.kind = lowered.kind;
    return found;
  }

  // What is the same for regions with the same structure. A negative kind: they have no loops.
  struct Lowered {
    int kind = -1;
    RegionProgram program;
    LoopProgram loops;
    std::shared_ptr<const AttentionProgram> attention = nullptr;
  };

  Lowered lower(const Region& region, int kind) {
    Lowered found;
    found.program = programs_.of(region);
    if (!found.program.refusal.empty()) return found;
    if ((found.attention = attention_in(flat_, region, found.program, found.loops)) != nullptr) {
      found.kind = kind;
      return found;
    }
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

  const GraphBody& flat_;
  const DeviceKind device_;
  const std::set<size_t>& left_out_;
  RegionMaker maker_;
  RegionPrograms programs_;
  std::vector<int> group_;  // by node
  std::vector<FoundRegion> groups_;
  std::unordered_map<std::string, Lowered> kinds_;  // by structure
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

FoundRegion region_in_graph(const GraphBody& flat, Region region, DeviceKind device,
                            const std::set<size_t>& products) {
  FoundRegion found;
  if (!products.empty()) {
    if (device != DeviceKind::kCuda) throw Error("Kernels with products are written for CUDA only.");
    RegionPrograms programs(flat);
    found = products_in(programs, std::move(region), products);
    if (found.products == nullptr) throw Error("A region has no products: {}.", found.program.refusal);
    return found;
  }
  found.program = RegionPrograms(flat).of(region);
  found.region = std::move(region);
  if (!found.program.refusal.empty()) throw Error("{}", found.program.refusal);
  if ((found.attention = attention_in(flat, found.region, found.program, found.loops)) != nullptr) return found;
  found.loops = lower_to_row_loops(found.program.results, found.program.locals);
  if (!found.loops.refusal.empty()) throw Error("A region has no loops: {}.", found.loops.refusal);
  if (device != DeviceKind::kCuda) return found;
  if (const std::string why = cuda_refusal(found.loops, updated_arrays(found.region)); !why.empty())
    throw Error("A region has no kernel for CUDA: {}.", why);
  return found;
}

}  // namespace fk
