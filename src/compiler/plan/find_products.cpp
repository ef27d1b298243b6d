#include "compiler/plan/find_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "compiler/codegen/cuda_product.h"
#include "compiler/plan/region_maker.h"

namespace fk {
namespace {

// Elements of a weight. With a larger one a launch is a small part of the time, and the check in double takes long.
constexpr int64_t kLargestWeight = int64_t{1} << 26;
// Of a sum. Shorter ones are written as loops, and leave most threads of a block without work.
constexpr int64_t kShortestSum = 64;
// Calls that add up ranks: weights are parts of a model's then, and no kernel with products was tried on them.
constexpr std::string_view kCollectives[] = {"allreduce", "all_gather", "all_to_all", "reduce_scatter"};

class ProductFinder {
 public:
  ProductFinder(const GraphBody& flat, const std::vector<FoundRegion>& found)
      : flat_(flat), found_(found), maker_(flat), programs_(flat), region_of_(flat.nodes.size(), kNone) {
    for (size_t r = 0; r < found.size(); ++r)
      for (size_t n : maker_.calls_of(found[r].region)) region_of_[n] = r;
  }

  std::vector<FoundProducts> run() {
    std::vector<FoundProducts> all;
    for (const GraphNode& node : flat_.nodes)
      for (std::string_view collective : kCollectives)
        if (node.op == collective) return all;
    std::map<ValueId, std::vector<size_t>> by_rows;
    std::vector<ValueId> order;
    for (size_t n = 0; n < flat_.nodes.size(); ++n) {
      if (!is_product(n)) continue;
      std::vector<size_t>& products = by_rows[flat_.nodes[n].input("x")->value];
      if (products.empty()) order.push_back(flat_.nodes[n].input("x")->value);
      products.push_back(n);
    }
    for (ValueId x : order)
      if (std::optional<FoundProducts> made = around(x, by_rows.at(x))) {
        for (size_t r : made->covers) taken_.insert(r);
        all.push_back(std::move(*made));
      }
    return all;
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  const GraphNode& node(size_t n) const { return flat_.nodes[n]; }

  bool is_product(size_t n) const {
    const GraphNode& call = node(n);
    if (!call.is_call() || call.op != "linear" || region_of_[n] != kNone) return false;
    const GraphOperand *weight = call.input("weight"), *bias = call.input("bias"), *x = call.input("x");
    if (weight == nullptr || x == nullptr) return false;
    auto is_weight = [&](const GraphOperand& o) { return maker_.value(o.value).kind == ValueKind::kParameter; };
    if (!is_weight(*weight) || (bias != nullptr && !is_weight(*bias))) return false;
    const GraphValue& matrix = maker_.value(weight->value);
    if (matrix.dtype != DType::kBF16 && matrix.dtype != DType::kF16) return false;
    const int64_t features = matrix.shape[0].constant, length = matrix.shape[1].constant;
    return length >= kShortestSum && features * length <= kLargestWeight;
  }

  // Products of these rows with what comes before and after, as much of it as one kernel can compute.
  std::optional<FoundProducts> around(ValueId x, const std::vector<size_t>& products) {
    std::optional<FoundProducts> best;
    auto attempt = [&](const std::vector<size_t>& covers) {
      std::optional<FoundProducts> made = made_of(products, covers);
      if (!made) return false;
      best = std::move(made);
      return true;
    };
    attempt({});
    const size_t before = maker_.maker(maker_.base(x));
    if (before != RegionMaker::kNoNode && region_of_[before] != kNone && taken_.count(region_of_[before]) == 0)
      attempt({region_of_[before]});
    if (!best) return {};
    // Regions that read the sums, in the order of the graph, as long as one more can be computed.
    for (bool more = true; more;) {
      more = false;
      for (size_t r : readers_of(best->region.region)) {
        if (taken_.count(r) > 0 || refused_.count({best->region.kind, r}) > 0) continue;
        std::vector<size_t> covers = best->covers;
        covers.push_back(r);
        const int kind = best->region.kind;
        if (attempt(covers)) {
          more = true;
          break;
        }
        refused_.insert({kind, r});
      }
    }
    if (maker_.calls_of(best->region.region).size() < 2) return {};
    return best;
  }

  // Other regions that read what this one gives.
  std::set<size_t> readers_of(const Region& region) const {
    std::set<size_t> regions;
    for (const Region::Output& o : region.outputs)
      for (size_t n : maker_.calls_that_read(o.value))
        if (n != RegionMaker::kNoNode && region_of_[n] != kNone) regions.insert(region_of_[n]);
    for (size_t n : maker_.calls_of(region))
      if (region_of_[n] != kNone) regions.erase(region_of_[n]);
    return regions;
  }

  std::optional<FoundProducts> made_of(const std::vector<size_t>& products, const std::vector<size_t>& covers) {
    std::vector<size_t> calls = products;
    for (size_t r : covers)
      for (size_t n : maker_.calls_of(found_[r].region)) calls.push_back(n);
    std::sort(calls.begin(), calls.end());
    std::optional<Region> region = maker_.region_of(calls);
    if (!region || needs_itself(calls)) return {};
    if (std::any_of(region->outputs.begin(), region->outputs.end(),
                    [](const Region::Output& o) { return o.updates >= 0; }))
      return {};
    FoundProducts made{{}, covers};
    made.region.region = std::move(*region);
    made.region.product_nodes.insert(products.begin(), products.end());
    // Those of all layers but the first are known.
    std::string structure = maker_.structure_of(made.region.region);
    for (size_t n : made.region.region.nodes) structure += made.region.product_nodes.count(n) > 0 ? 'p' : '.';
    auto [known, is_new] = kinds_.try_emplace(std::move(structure));
    Known& kind = known->second;
    if (is_new) {
      FoundRegion first = products_in(programs_, made.region.region, made.region.product_nodes);
      kind = {static_cast<int>(kinds_.size()) - 1, first.program, first.loops, first.products};
    }
    if (kind.products == nullptr) return {};
    made.region.kind = kind.number;
    made.region.program = kind.program;
    made.region.loops = kind.loops;
    made.region.products = kind.products;
    return made;
  }

  // Whether a call outside needs what these compute and they need what it computes.
  bool needs_itself(const std::vector<size_t>& calls) const {
    std::set<size_t> inside(calls.begin(), calls.end()), after;  // nodes that follow from these
    std::vector<bool> follows(flat_.values.size(), false);
    for (size_t n = calls.front(); n <= calls.back(); ++n) {
      const bool is_inside = inside.count(n) > 0;
      bool reads = false;
      for (const GraphOperand& o : node(n).inputs) {
        const size_t from = maker_.maker(o.value);
        if (is_inside && from != RegionMaker::kNoNode && after.count(from) > 0) {
          // A slice or reshape of what one of them gives is inside, too.
          const size_t source = maker_.maker(maker_.base(o.value));
          if (inside.count(source) == 0) return true;
        }
        reads = reads || follows[static_cast<size_t>(o.value)];
      }
      if (!is_inside && reads) after.insert(n);
      if (is_inside || reads)
        for (const GraphOperand& o : node(n).outputs) follows[static_cast<size_t>(o.value)] = true;
    }
    return false;
  }

  // What is the same for regions with the same structure.
  struct Known {
    int number = -1;
    RegionProgram program;
    LoopProgram loops;
    std::shared_ptr<const ProductProgram> products;  // nullptr: they are none
  };

  const GraphBody& flat_;
  const std::vector<FoundRegion>& found_;
  RegionMaker maker_;
  RegionPrograms programs_;
  std::vector<size_t> region_of_;                 // by node: of the given regions
  std::set<size_t> taken_;                        // regions that are inside of products
  std::set<std::pair<int, size_t>> refused_;      // a region that cannot be added to one of this kind
  std::unordered_map<std::string, Known> kinds_;  // by structure
};

}  // namespace

FoundRegion products_in(RegionPrograms& programs, Region region, const std::set<size_t>& nodes) {
  FoundRegion found;
  std::vector<Product> products;
  found.product_nodes = nodes;
  found.program = programs.of(region, nodes, &products);
  found.region = std::move(region);
  if (!found.program.refusal.empty()) return found;
  auto lowered =
      std::make_shared<ProductProgram>(lower_products(found.program.results, products, found.program.locals));
  std::string why = lowered->refusal;
  if (why.empty()) why = write_limits(*lowered);
  // For a reader: the products as expressions, too.
  found.program = programs.of(found.region);
  if (!why.empty()) {
    found.program.refusal = why;
    return found;
  }
  found.loops.arrays = lowered->arrays;
  found.products = std::move(lowered);
  return found;
}

std::vector<FoundProducts> find_products(const GraphBody& flat, const std::vector<FoundRegion>& found) {
  return ProductFinder(flat, found).run();
}

}  // namespace fk
