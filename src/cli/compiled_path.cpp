#include "cli/compiled_path.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/search_report.h"
#include "compiler/plan/profile_store.h"
#include "core/error.h"
#include "engine/rank_agreement.h"
#include "measure/timer.h"

namespace fk {

std::vector<std::string> trial_command(const CandidateOptions& candidates, const CommonOptions& common) {
  if (common.device == kCpu) return {};
  std::vector<std::string> words = {"/proc/self/exe", "search", "--device=" + device_name(common.device), "--quiet",
                                    candidates.disabled ? "--no-candidate-kernels" : "--allow-incorrect"};
  if (!candidates.cxxflags.empty()) words.push_back("--cxxflags=" + candidates.cxxflags);
  if (candidates.allow_libraries) words.emplace_back("--allow-libraries");
  words.emplace_back("--trial-request");
  return words;
}

void SearchFlags::add(FlagSet& flags, const std::string& when) {
  flags_ = &flags;
  when_ = when;
  flags.flag("!--no-generated-kernels", generated_,
             fmt::format("With {}: plans make the calls of the tree, and no kernels are searched", when));
  flags
      .option("--search-budget", budget_,
              fmt::format("With {}: kernels to measure; known ones cost nothing [all]", when))
      .range(1, int64_t{1} << 24);
  add_seed(flags, "--search-seed", seed_, "Of the inputs that kernels are measured with [that of --seed]");
  flags.option("--search-cache", cache_, "Folder of kernels and measurements, instead of the user's").type_name("DIR");
}

std::vector<std::string> SearchFlags::names() {
  return {"--no-generated-kernels", "--search-budget", "--search-seed", "--search-cache"};
}

void SearchFlags::refuse_without_plans() const {
  for (const std::string& name : names())
    if (flags_->find(name)->given()) throw UsageError("{} is about plans; give {} too", name, when_);
}

std::vector<std::string> SearchFlags::arguments() const {
  std::vector<std::string> words;
  if (!generated_) words.emplace_back("--no-generated-kernels");
  if (budget_ > 0) words.push_back(fmt::format("--search-budget={}", budget_));
  if (flags_->find("--search-seed")->given()) words.push_back(fmt::format("--search-seed={}", seed_));
  if (!cache_.empty()) words.push_back("--search-cache=" + cache_);
  return words;
}

std::optional<SearchOptions> SearchFlags::options(const std::vector<CandidateRecord>& judged,
                                                  const CandidateOptions& candidates, const CommonOptions& common,
                                                  Progress& progress) const {
  if (!generated_) return std::nullopt;
  SearchOptions search{.threads = common.threads,
                       .seed = flags_->find("--search-seed")->given() ? seed_ : common.seed,
                       .budget = budget_,
                       .cache_folder = cache_};
  for (const CandidateRecord& record : judged) search.calls_version += record.op + record.identity + " ";
  search.progress = [&progress](const std::string& what) { progress.show(what); };
  search.device = common.device;
  search.trial_command = trial_command(candidates, common);
  return search;
}

CompiledPath::CompiledPath(Model& model, const std::optional<SearchOptions>& search, const Options& options)
    : model_(model), options_(options), search_(search) {
  const int64_t start = now_ns();
  compiled_ = std::make_unique<CompiledModel>(
      model, [this](GraphPhase phase, const GraphBody& flat) { return regions_of(phase, flat); },
      PlanOptions{.check_every_step = options.check_every_step, .only_repeated_sizes = options.use == Use::kEngine});
  try {
    for (GraphPhase phase : phases()) {
      const int64_t begin = now_ns();
      compiled_->prepare(phase);
      phase_ms_[phase] = static_cast<double>(now_ns() - begin) / kNsPerMs;
    }
  } catch (const Error& e) {
    throw Error("{} cannot be run by plans: {} Run it without them.", model.name, e.what());
  }
  if (search_) search_->progress = nullptr;  // of the caller, who may be gone when a phase is planned later
  plan_ms_ = static_cast<double>(now_ns() - start) / kNsPerMs;
}

std::vector<PlannedRegion> CompiledPath::regions_of(GraphPhase phase, const GraphBody& flat) {
  if (!search_) return {};
  try {
    // Where one kernel computes whole tokens, plans do not decode them.
    for (const ImplementationInfo* by : model_.root->implementations())
      if (!by->any_device && by->device == search_->device.kind && !by->is_oracle) search_->products = false;
    PhasePlan plan = search_plan(flat, phase, *search_);
    find_s_ += plan.find_s;
    compile_s_ += plan.compile_s;
    trial_s_ += plan.trial_s;
    int64_t tried = 0;
    for (const KernelChoice& k : plan.kernels) tried += k.tried && !k.known ? 1 : 0;
    measured_ += tried;
    // One budget for all phases.
    if (search_->budget > 0) search_->budget -= tried;
    fingerprint_ += (fingerprint_.empty() ? "" : " ") + plan.fingerprint();
    std::vector<PlannedRegion> regions = std::move(plan.regions);
    plan.source.clear();
    found_.push_back(std::move(plan));
    return regions;
  } catch (const Error& e) {  // no compiler, no place for what it writes
    no_kernels_ = e.what();
    return {};
  }
}

std::vector<GraphPhase> CompiledPath::phases() const {
  if (is_stateless(model_.config.facts.task)) return {GraphPhase::kEncode};
  if (options_.use == Use::kEngine) return {GraphPhase::kPrefill, GraphPhase::kDecode, GraphPhase::kMixed};
  return {GraphPhase::kPrefill, GraphPhase::kDecode};
}

StepsToTime usual_steps(const Model& model, const BatchingOptions& options) {
  constexpr int64_t kPrompt = 64, kChunk = 32, kMany = 16, kBeside = 8;
  if (is_stateless(model.config.facts.task)) return {{GraphPhase::kEncode, {{1, kChunk}, {kBeside, kChunk}}}};
  const int64_t sequences = options.max_num_seqs, tokens = options.max_num_batched_tokens;
  StepsToTime steps = {{GraphPhase::kDecode, {{1, 1}}}, {GraphPhase::kPrefill, {{1, std::min(kPrompt, tokens)}}}};
  if (sequences > 1) {
    steps[GraphPhase::kDecode].push_back({std::min(kMany, sequences), 1});
    steps[GraphPhase::kMixed] = {{std::min(kBeside, sequences - 1), std::min(kChunk, tokens)}};
  }
  return steps;
}

TrialResult time_whole_steps(CompiledModel& compiled, const Model& model, ThreadPool& pool, GraphPhase phase,
                             const std::string& fingerprint, const std::vector<StepSizes>& sizes,
                             const SearchOptions& search) {
  ProfileStore store(search.cache_folder.empty() ? "" : search.cache_folder + "/profiles");
  TrialOptions trial{.phase = phase, .rows = {}, .threads = search.threads, .seed = search.seed};
  trial.device = search.device;
  for (const StepSizes& s : sizes) trial.rows.insert(trial.rows.end(), {s.sequences, s.tokens});
  std::string what = fmt::format("whole steps of {} {} {} {} {} {}", model.name, dtype_name(model.config.facts.dtype),
                                 model.weights.size_bytes(), phase_name(phase), fingerprint, search.calls_version);
  if (const Communicator* ranks = model.communicator; ranks != nullptr)
    what += fmt::format(" rank {} of {}", ranks->rank(), ranks->size());
  const std::string key = profile_key(what, trial);
  std::optional<TrialResult> known = store.find(key);
  // Ranks time together or not at all.
  if (least_of_all_ranks(known ? 1 : 0, model) == 1) return *known;
  TrialResult result = try_step(compiled, model, pool, phase, {.sizes = sizes, .seed = search.seed});
  store.store(key, result);
  return result;
}

void CompiledPath::leave_slower_to_tree(ThreadPool& pool, const StepsToTime& steps, Progress& progress) {
  if (!search_ || options_.check_every_step) return;
  const int64_t start = now_ns();
  try {
    for (GraphPhase phase : phases()) {
      auto plan = std::find_if(found_.begin(), found_.end(), [&](const PhasePlan& p) { return p.phase == phase; });
      auto sizes = steps.find(phase);
      const bool has_both = plan != found_.end() && sizes != steps.end();
      if (least_of_all_ranks(has_both ? 1 : 0, model_) == 0) continue;
      progress.show(fmt::format("{}: whole steps by the plan and by the tree", phase_name(phase)));
      TrialResult& result = steps_[phase];
      result = time_whole_steps(*compiled_, model_, pool, phase, plan->fingerprint(), sizes->second, *search_);
      compiled_->leave_to_tree(phase, least_of_all_ranks(keeps_tree(result) ? 0 : 1, model_) == 0);
    }
  } catch (const Error& e) {  // no memory for states of its own
    no_steps_ = e.what();
  }
  compiled_->count_from_zero();
  steps_s_ = static_cast<double>(now_ns() - start) * 1e-9;
}

std::string CompiledPath::left_text() const {
  std::string text;
  for (const auto& [phase, result] : steps_)
    if (compiled_->left_to_tree(phase))
      text += fmt::format("; {} is left to the tree: {}", phase_name(phase), step_text(result));
  if (!no_steps_.empty()) text += "; whole steps were not timed: " + no_steps_;
  return text;
}

Json CompiledPath::to_json() const {
  Json json = {{"plan_ms", plan_ms_},
               {"find_ms", find_s_ * 1e3},
               {"compile_ms", compile_s_ * 1e3},
               {"trial_ms", trial_s_ * 1e3},
               {"kernels_measured", measured_},
               {"fingerprint", fingerprint_},
               {"calls_by_tree", compiled_->calls_by_tree()},
               {"calls_by_whole", compiled_->calls_by_whole()},
               {"text", text()}};
  if (!no_kernels_.empty()) json["no_kernels"] = no_kernels_;
  json["steps_ms"] = steps_s_ * 1e3;
  for (const auto& [phase, ms] : phase_ms_) json["timeline"].push_back({{"name", phase_name(phase)}, {"total_ms", ms}});
  for (const PhasePlan& plan : found_) {
    for (Json& row : json["timeline"])
      if (row["name"] == phase_name(plan.phase))
        row["phases"] = {
            {"find_ms", plan.find_s * 1e3}, {"compile_ms", plan.compile_s * 1e3}, {"trial_ms", plan.trial_s * 1e3}};
    json["kernels"][std::string(phase_name(plan.phase))] = kernels_json(plan);
  }
  for (const auto& [phase, result] : steps_) {
    Json one = trial_to_json(result);
    one["left_to_tree"] = compiled_->left_to_tree(phase);
    json["whole_steps"][std::string(phase_name(phase))] = std::move(one);
  }
  for (GraphPhase phase : phases()) {
    const PlanReport r = compiled_->plan(phase)->report();
    json[std::string(phase_name(phase))] = {{"steps", r.steps},
                                            {"calls", r.calls},
                                            {"regions", r.regions},
                                            {"refused_regions", r.refused_regions},
                                            {"copies", r.copies},
                                            {"arena_bytes", r.arena_bytes},
                                            {"lower_bound_bytes", r.lower_bound_bytes}};
  }
  return json;
}

std::string CompiledPath::search_text() const {
  std::string text = fmt::format("planned in {:.0f} ms", plan_ms_);
  if (search_) text += fmt::format(", {} kernels measured", measured_);
  if (!no_kernels_.empty()) text += "; no generated kernels: " + no_kernels_;
  return text;
}

std::string CompiledPath::planned_text() const {
  std::string text;
  for (const PhasePlan& plan : found_)
    text += fmt::format("{}: {} calls of a pass become {}; ", phase_name(plan.phase), plan.calls, plan.calls_planned);
  return text + search_text() + left_text();
}

std::string CompiledPath::text() const {
  std::string text;
  for (GraphPhase phase : phases()) {
    const PlanReport r = compiled_->plan(phase)->report();
    if (r.layouts == 0) continue;  // no batch of it was run by the plan
    text += fmt::format("{}{}: {} steps", text.empty() ? "" : "; ", phase_name(phase), r.steps);
    if (r.regions > 0) text += fmt::format(", {} of them regions", r.regions);
    if (r.copies > 0) text += fmt::format(", {} of them copies", r.copies);
    text +=
        fmt::format(", values in {} (lower bound {})", human_bytes(r.arena_bytes), human_bytes(r.lower_bound_bytes));
  }
  text += (text.empty() ? "" : "; ") + search_text() + left_text();
  if (compiled_->calls_by_whole() > 0)
    text += fmt::format("; {} passes run by {}, as without a plan", compiled_->calls_by_whole(), compiled_->whole());
  if (compiled_->calls_by_tree() > 0) text += fmt::format("; {} passes run by the tree", compiled_->calls_by_tree());
  return text;
}

std::unique_ptr<CompiledPath> compiled_engine(Model& model, const std::optional<SearchOptions>& search,
                                              ThreadPool& pool, const BatchingOptions& options, Progress& progress) {
  auto path = std::make_unique<CompiledPath>(model, search, CompiledPath::Options{.use = CompiledPath::Use::kEngine});
  path->leave_slower_to_tree(pool, usual_steps(model, options), progress);
  return path;
}

void refuse_with_plans(const BatchingOptions& options) {
  if (options.batch_invariant)
    throw UsageError(
        "--batch-invariant and --compiled exclude each other: which steps are run by plans depends on their size, and "
        "generated kernels round otherwise than the tree; leave one of them out.");
}

std::string compiled_share_text(const EngineStats& stats) {
  const auto steps = static_cast<double>(std::max<int64_t>(stats.steps, 1));
  return fmt::format("{:.1f} % of {} steps by plans", 100 * static_cast<double>(stats.compiled_steps) / steps,
                     stats.steps);
}

}  // namespace fk
