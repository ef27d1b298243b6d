#include "bench/scenarios/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "bench/scenarios/dry_run.h"
#include "bench/scenarios/name_calls.h"
#include "bench/scenarios/recorder.h"
#include "core/closest.h"
#include "core/error.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "models/catalog.h"
#include "ops/l1/sequence_pool.h"

namespace fk {
namespace {

std::vector<const CatalogEntry*> selected_models(const ScenarioSelection& selection) {
  std::vector<const CatalogEntry*> chosen;
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog()) {
    names.push_back(entry.name);
    if (!selection.categories.empty() && std::find(selection.categories.begin(), selection.categories.end(),
                                                   entry.category) == selection.categories.end())
      continue;
    bool named = std::any_of(selection.models.begin(), selection.models.end(),
                             [&](const std::string& prefix) { return entry.name.starts_with(prefix); });
    if (selection.models.empty() ? !entry.hf_id.empty() : named) chosen.push_back(&entry);
  }
  for (const std::string& prefix : selection.models)
    if (std::none_of(names.begin(), names.end(), [&](const std::string& n) { return n.starts_with(prefix); }))
      throw Error("No model of the catalog is named '{}'{} `fastkernels list` shows them all.", prefix,
                  did_you_mean(prefix, names));
  return chosen;
}

// Sampling from the logits of a step: greedy for all sequences, or random.
void dry_run_sampler(Sampler& sampler, int64_t sequences, int64_t vocab, CallObserver& observer) {
  struct Observed final : CallObserver {
    explicit Observed(CallObserver& next) : next_(next) {}
    bool before_call(const Node& node, const Context& ctx, Args args) override {
      next_.before_call(node, ctx, args);
      return false;
    }
    CallObserver& next_;
  } leave_out(observer);
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .observer = &leave_out};
  View logits = shape_only({{sequences, vocab}, DType::kF32});
  std::vector<int64_t> steps(static_cast<size_t>(sequences), 0);
  for (double temperature : {0.0, 0.8}) {
    std::vector<SamplingParams> params(static_cast<size_t>(sequences), SamplingParams{.temperature = temperature});
    sampler.pick(ctx, logits, params, steps);
  }
}

// What is computed after a pass of the model: tokens are sampled, or the vectors of an encoder are pooled, in each way.
// It lives as long as the recorder, which knows nodes by their addresses.
class AfterTheModel {
 public:
  AfterTheModel(const ModelFacts& facts, const std::vector<Step>& steps)
      : facts_(facts), builder_(dry_build_options()) {
    size_t sequences = 0;
    for (const Step& step : steps) sequences = std::max(sequences, step.sequences.size());
    if (facts.task == Task::kCausalLM)
      sampler_.emplace(static_cast<int64_t>(sequences), dry_build_options());
    else if (is_encoder(facts.task))
      for (const char* pooling : {"cls", "mean"})
        pools_.push_back(builder_.child<SequencePool>("embedding", {.pooling = pooling, .float_output = true}));
  }

  void dry_run(const Workload& workload, CallRecorder& recorder) {
    if (sampler_) dry_run_sampler(*sampler_, workload.num_sequences(), facts_.vocab_size, recorder);
    Workload of_rows = workload;
    of_rows.width = facts_.hidden_size;
    for (const Op<SequencePool>& pool : pools_) fk::dry_run(pool.node(), of_rows, &recorder);
  }

 private:
  const ModelFacts& facts_;
  Builder builder_;
  std::optional<Sampler> sampler_;
  std::vector<Op<SequencePool>> pools_;
};

class Collection {
 public:
  // Adds the calls of one step of a model; known calls only get another model.
  void add(std::vector<RecordedCall> calls, const std::string& model, int64_t tp, const std::string& step) {
    for (RecordedCall& call : calls) call.step = step;
    name_calls(calls, fmt::format("{}/tp{}", model, tp));
    for (RecordedCall& call : calls) {
      Scenario& s = call.scenario;
      auto [at, is_new] = by_call_.emplace(call_text(s), scenarios_.size());
      if (is_new) {
        s.models = {model};
        s.tp = tp;
        scenarios_.push_back(std::move(s));
        continue;
      }
      Scenario& known = scenarios_[at->second];
      if (known.models.back() != model &&
          std::find(known.models.begin(), known.models.end(), model) == known.models.end())
        known.models.push_back(model);
      if (known.tp != tp && std::find(known.also_tp.begin(), known.also_tp.end(), tp) == known.also_tp.end())
        known.also_tp.push_back(tp);
    }
  }

  // Operators that no model uses: the cases of their contracts.
  void add_contract_cases() {
    std::set<std::string, std::less<>> seen;
    for (const Scenario& s : scenarios_) seen.insert(s.op);
    for (const OperatorInfo* op : Registry::instance().operators()) {
      if (seen.contains(op->name)) continue;
      for (const OperatorInfo::ErasedCase& c : op->cases()) {
        if (c.workload.num_tokens() == 0) continue;  // nothing to time
        Scenario s{.op = std::string(op->name), .name = "contract/" + name_part(c.label)};
        s.init = c.init;
        s.workload = c.workload;
        for (const Field& f : s.init)
          if (f.name == "tp_size") s.tp = std::get<int64_t>(f.value);
        scenarios_.push_back(std::move(s));
      }
    }
  }

  std::vector<Scenario> take(const ScenarioSelection& selection) {
    std::erase_if(scenarios_, [&](const Scenario& s) { return !selects(selection, s); });
    std::stable_sort(scenarios_.begin(), scenarios_.end(), [](const Scenario& a, const Scenario& b) {
      return std::pair(a.info().level, a.op) < std::pair(b.info().level, b.op);
    });
    return std::move(scenarios_);
  }

 private:
  std::vector<Scenario> scenarios_;
  std::unordered_map<std::string, size_t> by_call_;
};

}  // namespace

GeneratedScenarios generate_scenarios(const ScenarioSelection& selection) {
  check_selection(selection);
  std::vector<int64_t> sizes = selection.tp;
  if (sizes.empty()) sizes.assign(std::begin(kTpSizes), std::end(kTpSizes));
  GeneratedScenarios result;
  Collection collection;
  for (const CatalogEntry* entry : selected_models(selection)) {
    std::vector<Step> steps = steps_of(entry->config.facts);
    for (int64_t tp : sizes) {
      ModelConfig config = entry->config;
      std::unique_ptr<Node> root;
      try {
        config.set_ranks(tp, tp == 1);  // one process: no all-reduce
        root = build_model(config, dry_build_options());
      } catch (const Error& impossible) {
        result.left_out.push_back({fmt::format("{}/tp{}", entry->name, tp), impossible.what()});
        continue;
      }
      AfterTheModel after(config.facts, steps);
      CallRecorder recorder(false, selection.target);
      for (const Step& step : steps) {
        Workload workload = Workload::batch(step.sequences);
        workload.dtype = config.facts.dtype;
        dry_run(*root, workload, &recorder);
        after.dry_run(workload, recorder);
        for (const std::string& call : recorder.unmatched())
          result.left_out.push_back({fmt::format("{}/tp{}/{}: {}", entry->name, tp, step.name, call),
                                     "its contract has no workload that makes these shapes"});
        collection.add(recorder.take_calls(), entry->name, tp, step.name);
      }
    }
  }
  if (selection.models.empty() && selection.categories.empty()) collection.add_contract_cases();
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t tp) { return tp > 1; }))
    result.left_out.push_back({"collective operators over more than one rank",
                               "a candidate is judged in one process, so a rank's part is computed and not added up"});
  result.scenarios = collection.take(selection);
  return result;
}

}  // namespace fk
