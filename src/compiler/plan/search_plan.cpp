#include "compiler/plan/search_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "candidate/compile_cache.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/profile_store.h"
#include "compiler/plan/search_products.h"
#include "compiler/plan/trial_process.h"
#include "measure/timer.h"

namespace fk {

std::vector<int64_t> timed_rows(GraphPhase phase) {
  if (phase == GraphPhase::kDecode) return {1, 32};
  if (phase == GraphPhase::kMixed) return {32, 256};
  return {16, 512};
}

std::string PhasePlan::fingerprint() const {
  Fingerprint print;
  print.add(phase_name(phase));
  for (const KernelChoice& k : kernels)
    if (k.chosen) print.add(k.key).add(fmt::to_string(k.places));
  return print.hex();
}

namespace {

struct SearchRound {
  PhasePlan plan;
  std::vector<FoundRegion> found;
  std::vector<size_t> kernel_of;   // by region
  std::set<size_t> tried_without;  // kernels that lost, and whose calls the next round tries without some of them
  CompiledRegions compiled;
};

// The calls of a region that lost which may have held back the others: those with a state of a sequence, where it has
// any, else products. Most of them have much work of their own, and kernels written by hand.
std::vector<size_t> heavy_calls(const GraphBody& flat, const Region& region) {
  std::vector<size_t> recurrences, products;
  for (size_t n : region.nodes) {
    const GraphNode& node = flat.nodes[n];
    if (node.is_call() && node.input("state_slots") != nullptr) recurrences.push_back(n);
    if (node.op.ends_with("linear")) products.push_back(n);
  }
  return recurrences.empty() ? products : recurrences;
}

// One round of a search: regions without the calls in `left_out`. Heavy calls of regions that lost are added to it.
SearchRound search_round(const GraphBody& flat, GraphPhase phase, const SearchOptions& options,
                         std::set<size_t>& left_out) {
  SearchRound round;
  PhasePlan& plan = round.plan;
  plan.phase = phase;
  for (const GraphNode& node : flat.nodes) plan.calls += node.is_call() ? 1 : 0;
  plan.calls_planned = plan.calls;
  Stopwatch finding;
  std::vector<FoundRegion>& found = round.found;
  found = find_regions(flat, &plan.rules, options.device.kind, left_out);
  std::map<std::string, size_t> numbers;  // of the kernels, by key
  std::vector<size_t>& kernel_of = round.kernel_of;
  std::vector<const FoundRegion*> all;
  std::vector<size_t> first;  // region, by kernel
  RegionDrafts drafts(flat, options.device.kind);
  for (const FoundRegion& f : found) {
    all.push_back(&f);
    const RegionDraft& draft = drafts.of(f);
    auto [at, is_new] = numbers.emplace(draft.key, plan.kernels.size());
    if (is_new) {
      KernelChoice& kernel = plan.kernels.emplace_back();
      kernel.key = draft.key;
      kernel.calls = draft.calls;
      kernel.expression = draft.expression;
      for (size_t n : f.region.nodes)
        if (flat.nodes[n].is_call()) kernel.paths.push_back(flat.nodes[n].path);
      first.push_back(all.size() - 1);
    }
    kernel_of.push_back(at->second);
    ++plan.kernels[at->second].places;
  }
  plan.find_s = finding.elapsed_s();
  if (all.empty()) return round;
  CompiledRegions& compiled = round.compiled;
  compiled = compile_regions(all, flat, options.cache_folder, options.device.kind);
  plan.source = compiled.source;
  plan.compile_s = compiled.compile_seconds;
  if (!options.measure) return round;

  Stopwatch trying;
  ProfileStore store(options.cache_folder.empty() ? "" : options.cache_folder + "/profiles");
  TrialOptions trial{.phase = phase, .rows = timed_rows(phase), .threads = options.threads, .seed = options.seed};
  trial.device = options.device;
  auto show = [&](size_t k) {
    if (options.progress)
      options.progress(
          fmt::format("{}: kernel {} of {}: {}", phase_name(phase), k + 1, plan.kernels.size(), plan.kernels[k].calls));
  };
  std::vector<size_t> later;  // kernels that a process tries one after the other
  int64_t left = options.budget;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    KernelChoice& kernel = plan.kernels[k];
    const std::string key = profile_key(kernel.key + options.calls_version, trial);
    if (std::optional<TrialResult> known = store.find(key)) {
      kernel.trial = std::move(*known);
      kernel.known = kernel.tried = true;
    } else if (left != 0) {
      left -= left > 0 ? 1 : 0;
      kernel.tried = true;
      if (options.device != kCpu) {
        later.push_back(k);
        continue;
      }
      show(k);
      kernel.trial = try_kernel(flat, found[first[k]], *compiled.kernels[first[k]], trial);
      store.store(key, kernel.trial);
    }
  }
  std::vector<TrialRequest> requests;
  for (size_t k : later) requests.push_back({&found[first[k]], plan.kernels[k].key, compiled.libraries[first[k]]});
  std::vector<TrialResult> results =
      try_kernels(flat, requests, trial, options.trial_command, [&](size_t i) { show(later[i]); });
  for (size_t i = 0; i < later.size(); ++i) {
    KernelChoice& kernel = plan.kernels[later[i]];
    kernel.trial = std::move(results[i]);
    store.store(profile_key(kernel.key + options.calls_version, trial), kernel.trial);
  }
  for (KernelChoice& kernel : plan.kernels) kernel.chosen = kernel.tried && kernel.trial.wins();
  store.prune();
  plan.trial_s = trying.elapsed_s();
  for (size_t i = 0; i < found.size(); ++i) {
    const KernelChoice& kernel = plan.kernels[kernel_of[i]];
    if (!kernel.tried || kernel.chosen || kernel.paths.size() == 1) continue;
    for (size_t n : heavy_calls(flat, found[i].region)) {
      left_out.insert(n);
      round.tried_without.insert(kernel_of[i]);
    }
  }
  return round;
}

int64_t count_calls(const GraphBody& flat, const Region& region) {
  return std::count_if(region.nodes.begin(), region.nodes.end(), [&](size_t n) { return flat.nodes[n].is_call(); });
}

// The regions of the plan: products first, then those that were chosen. One inside of a product's is there for batches
// that it refuses.
void take_regions(const GraphBody& flat, SearchRound& round, std::vector<ChosenProducts> products) {
  PhasePlan& plan = round.plan;
  std::map<size_t, int> inside;  // number of the region with products, by region
  for (ChosenProducts& p : products) {
    for (size_t r : p.covers) inside[r] = static_cast<int>(plan.regions.size());
    plan.calls_planned -= count_calls(flat, p.planned.region) - 1;
    plan.regions.push_back(std::move(p.planned));
  }
  for (size_t i = 0; i < round.found.size(); ++i) {
    if (!plan.kernels[round.kernel_of[i]].chosen) continue;
    auto product = inside.find(i);
    if (product == inside.end()) plan.calls_planned -= count_calls(flat, round.found[i].region) - 1;
    plan.regions.push_back(
        {std::move(round.found[i].region), round.compiled.kernels[i], product == inside.end() ? -1 : product->second});
  }
}

}  // namespace

PhasePlan search_plan(const GraphBody& flat, GraphPhase phase, const SearchOptions& options) {
  std::set<size_t> left_out;
  std::vector<KernelChoice> lost;
  std::set<std::string> measured;  // kernels, by key; a later round knows them
  SearchOptions now = options;
  double find_s = 0, compile_s = 0, trial_s = 0;
  for (;;) {
    const size_t before = left_out.size();
    SearchRound round = search_round(flat, phase, now, left_out);
    PhasePlan& plan = round.plan;
    plan.find_s = find_s += plan.find_s;
    plan.compile_s = compile_s += plan.compile_s;
    plan.trial_s = trial_s += plan.trial_s;
    if (left_out.size() == before) {
      for (KernelChoice& kernel : plan.kernels) kernel.known = kernel.known && measured.count(kernel.key) == 0;
      std::vector<ChosenProducts> products;
      if (options.products && options.device.kind == DeviceKind::kCuda && phase == GraphPhase::kDecode) {
        std::vector<const KernelChoice*> chosen;  // by region
        for (size_t k : round.kernel_of) chosen.push_back(plan.kernels[k].chosen ? &plan.kernels[k] : nullptr);
        if (now.budget > 0)
          for (const KernelChoice& k : plan.kernels)
            now.budget = std::max<int64_t>(now.budget - (k.tried && !k.known && measured.count(k.key) == 0 ? 1 : 0), 0);
        ProductSearch searched = search_products(flat, round.found, chosen, now);
        products = std::move(searched.chosen);
        plan.find_s += searched.find_s;
        plan.compile_s += searched.compile_s;
        plan.trial_s += searched.trial_s;
        if (!searched.source.empty())
          plan.source += "\n// A source of its own: kernels with products.\n" + searched.source;
        lost.insert(lost.begin(), searched.kernels.begin(), searched.kernels.end());
      }
      take_regions(flat, round, std::move(products));
      plan.kernels.insert(plan.kernels.end(), lost.begin(), lost.end());
      return std::move(plan);
    }
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      KernelChoice& kernel = plan.kernels[k];
      if (kernel.tried && !kernel.known) {
        measured.insert(kernel.key);
        now.budget -= now.budget > 0 ? 1 : 0;
      }
      if (round.tried_without.count(k) > 0) lost.push_back(std::move(kernel));
    }
  }
}

}  // namespace fk
