#include "compiler/plan/search_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/profile_store.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/trial_process.h"
#include "core/error.h"
#include "measure/timer.h"

namespace fk {
namespace {

// What a chosen kernel saves of its calls' time with this many rows; with numbers that were not timed as much as it
// saves at most.
double saved_by(const KernelChoice& kernel, int64_t rows) {
  double most = 0;
  for (const RegionTiming& t : kernel.trial.timings) {
    if (t.rows == rows) return t.calls_ns - t.kernel_ns;
    most = std::max(most, t.calls_ns - t.kernel_ns);
  }
  return most;
}

// Whether a plan can run these beside the chosen regions that are in none of them.
bool can_be_scheduled(const GraphBody& flat, const std::vector<FoundRegion>& found,
                      const std::vector<const KernelChoice*>& chosen, const std::vector<ChosenProducts>& products) {
  std::vector<bool> inside(found.size(), false);
  std::vector<const Region*> regions;
  for (const ChosenProducts& p : products) {
    regions.push_back(&p.planned.region);
    for (size_t r : p.covers) inside[r] = true;
  }
  for (size_t r = 0; r < found.size(); ++r)
    if (chosen[r] != nullptr && !inside[r]) regions.push_back(&found[r].region);
  try {
    schedule_units(flat, regions);
    return true;
  } catch (const Error&) {
    return false;
  }
}

class ProductTrials {
 public:
  ProductTrials(const GraphBody& flat, const std::vector<FoundRegion>& found,
                const std::vector<const KernelChoice*>& chosen, const SearchOptions& options)
      : flat_(flat), found_(found), chosen_(chosen), options_(options) {}

  ProductSearch run() {
    Stopwatch finding;
    products_ = find_products(flat_, found_);
    number_kernels();
    search_.find_s = finding.elapsed_s();
    if (products_.empty()) return std::move(search_);
    try {
      compile();
      if (!options_.measure) return std::move(search_);
      Stopwatch trying;
      measure();
      search_.trial_s = trying.elapsed_s();
    } catch (const Error& e) {
      // The plan is made without them, and the report says why.
      for (KernelChoice& kernel : search_.kernels) {
        kernel.tried = true;
        kernel.trial = failed_trial(compiled_.kernels.empty() ? TrialEnd::kNotCompiled : TrialEnd::kFailed, e.what());
      }
      return std::move(search_);
    }
    choose();
    return std::move(search_);
  }

 private:
  void compile() {
    std::vector<const FoundRegion*> all;
    for (const FoundProducts& p : products_) all.push_back(&p.region);
    compiled_ = compile_regions(all, flat_, options_.cache_folder, options_.device.kind);
    search_.source = compiled_.source;
    search_.compile_s = compiled_.compile_seconds;
  }

  void number_kernels() {
    RegionDrafts drafts(flat_, options_.device.kind);
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i < products_.size(); ++i) {
      const RegionDraft& draft = drafts.of(products_[i].region);
      auto [at, is_new] = numbers.emplace(draft.key, search_.kernels.size());
      if (is_new) {
        KernelChoice& kernel = search_.kernels.emplace_back();
        kernel.key = draft.key;
        kernel.calls = draft.calls;
        kernel.expression = draft.expression;
        for (size_t n : products_[i].region.region.nodes)
          if (flat_.nodes[n].is_call()) kernel.paths.push_back(flat_.nodes[n].path);
        first_.push_back(i);
      }
      kernel_of_.push_back(at->second);
      ++search_.kernels[at->second].places;
    }
  }

  void measure() {
    ProfileStore store(options_.cache_folder.empty() ? "" : options_.cache_folder + "/profiles");
    TrialOptions trial{.rows = timed_product_rows(), .threads = options_.threads, .seed = options_.seed};
    trial.device = options_.device;
    auto key_of = [&](const KernelChoice& kernel) { return profile_key(kernel.key + options_.calls_version, trial); };
    std::vector<size_t> later;
    int64_t left = options_.budget;
    for (size_t k = 0; k < search_.kernels.size(); ++k) {
      KernelChoice& kernel = search_.kernels[k];
      if (std::optional<TrialResult> known = store.find(key_of(kernel))) {
        kernel.trial = std::move(*known);
        kernel.known = kernel.tried = true;
      } else if (left != 0) {
        left -= left > 0 ? 1 : 0;
        kernel.tried = true;
        later.push_back(k);
      }
    }
    std::vector<TrialRequest> requests;
    for (size_t k : later)
      requests.push_back({&products_[first_[k]].region, search_.kernels[k].key, compiled_.libraries[first_[k]]});
    std::vector<TrialResult> results = try_kernels(flat_, requests, trial, options_.trial_command, [&](size_t i) {
      if (options_.progress)
        options_.progress(fmt::format("kernel {} of {} with products: {}", later[i] + 1, search_.kernels.size(),
                                      search_.kernels[later[i]].calls));
    });
    for (size_t i = 0; i < later.size(); ++i) {
      KernelChoice& kernel = search_.kernels[later[i]];
      kernel.trial = std::move(results[i]);
      store.store(key_of(kernel), kernel.trial);
    }
  }

  double saved_inside(const FoundProducts& products, int64_t rows) const {
    double saved = 0;
    for (size_t r : products.covers)
      if (chosen_[r] != nullptr) saved += saved_by(*chosen_[r], rows);
    return saved;
  }

  void choose() {
    for (size_t i = 0; i < products_.size(); ++i) {
      KernelChoice& kernel = search_.kernels[kernel_of_[i]];
      const FoundProducts& products = products_[i];
      if (!kernel.tried) continue;
      bool one = false, several = false;
      for (const RegionTiming& t : kernel.trial.timings) {
        const double saved = saved_inside(products, t.rows);
        if (t.rows == 1) kernel.saved_inside_ns = saved;
        (t.rows == 1 ? one : several) = products_win(kernel.trial, t, saved);
      }
      if (!one) continue;
      auto* cuts = dynamic_cast<CutKernel*>(compiled_.kernels[i].get());
      cuts->use(kernel.trial.one, several ? kernel.trial.several : CutKernel::kNoCut);
      search_.chosen.push_back({{products.region.region, compiled_.kernels[i]}, products.covers});
      if (can_be_scheduled(flat_, found_, chosen_, search_.chosen))
        kernel.chosen = true;
      else
        search_.chosen.pop_back();
    }
  }

  const GraphBody& flat_;
  const std::vector<FoundRegion>& found_;
  const std::vector<const KernelChoice*>& chosen_;
  const SearchOptions& options_;
  std::vector<FoundProducts> products_;
  std::vector<size_t> first_, kernel_of_;  // the first region of each kernel, and the kernel of each region
  CompiledRegions compiled_;
  ProductSearch search_;
};

}  // namespace

std::vector<int64_t> timed_product_rows() { return {1, kMostProductRows}; }

bool products_win(const TrialResult& trial, const RegionTiming& timing, double saved_ns) {
  // Of less than a percent nothing is known.
  constexpr double kLeastGain = 1.01;
  return trial.failure.empty() && timing.verdict == "FASTER" &&
         timing.kernel_ns * kLeastGain < timing.calls_ns - saved_ns;
}

ProductSearch search_products(const GraphBody& flat, const std::vector<FoundRegion>& found,
                              const std::vector<const KernelChoice*>& chosen, const SearchOptions& options) {
  return ProductTrials(flat, found, chosen, options).run();
}

}  // namespace fk
