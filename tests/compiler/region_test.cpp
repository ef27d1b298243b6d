// Regions of models: which calls become one kernel, and that these kernels compute what the calls do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/plan/find_regions.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/region_trial.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "models/resolve.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

GraphBody flat_graph(const CatalogEntry& entry, GraphPhase phase) {
  ModelSource source = resolve_model(entry.name);
  std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
  return flatten(trace_graph(*root, entry.name, phase, source.config.facts.dtype));
}

std::vector<std::string> calls_of_regions(const GraphBody& flat) {
  std::vector<std::string> calls;
  for (const FoundRegion& found : find_regions(flat)) calls.push_back(draft_of(found, flat).calls);
  return calls;
}

TEST(Regions, Print) {
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-gemma3", "tiny-mamba", "tiny-qwen3-moe"}) {
    GraphBody flat = flat_graph(*find_catalog(name), GraphPhase::kDecode);
    std::map<std::string, int> counts;
    for (const std::string& c : calls_of_regions(flat)) ++counts[c];
    int64_t calls = 0;
    for (const GraphNode& n : flat.nodes) calls += n.is_call();
    fmt::print("{} {} calls\n", name, calls);
    for (const auto& [c, n] : counts) fmt::print("  {} x {}\n", n, c);
  }
}

TEST(Regions, Try) {
  for (const char* name : {"tiny-llama", "qwen3-0.6b", "llama-3.2-1b", "gemma3-4b"}) {
    if (!find_catalog(name)) continue;
    GraphBody flat = flat_graph(*find_catalog(name), GraphPhase::kDecode);
    std::vector<FoundRegion> found = find_regions(flat);
    std::vector<const FoundRegion*> all;
    for (const FoundRegion& f : found) all.push_back(&f);
    CompiledRegions compiled = compile_regions(all, flat);
    if (getenv("SRC")) fmt::print("{}\n", compiled.source);
    std::set<std::string> seen;
    for (size_t i = 0; i < found.size(); ++i) {
      RegionDraft draft = draft_of(found[i], flat);
      if (!seen.insert(draft.key).second) continue;
      TrialResult r = try_kernel(flat, found[i], *compiled.kernels[i], {});
      fmt::print("{} {}: {}", name, draft.calls, r.failure); for (auto& t : r.timings) fmt::print("  [{} rows {:.0f} / {:.0f} ns {:.2f}x {}]", t.rows, t.calls_ns, t.kernel_ns, t.speedup, t.verdict); fmt::print("\n");
    }
  }
}

}  // namespace
}  // namespace fk
