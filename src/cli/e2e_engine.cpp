#include "cli/e2e_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "candidate/compile_cache.h"
#include "cli/e2e_engine_report.h"
#include "cli/e2e_report.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/output_file.h"
#include "measure/machine_info.h"
#include "models/tokenizer.h"
#include "ops/unfused.h"

namespace fk {
namespace {

void record_source(Recorder& recorder, const std::string& op, const CommonOptions& common) {
  std::string path = find_candidate(candidate_folder(), Registry::instance().at(op), common.device.kind).path;
  recorder.add(candidate_events({op, path, file_text(path).value_or("")}));
}

// "--num-prompts" is num_prompts.
std::string parameter_name(const Flag& flag) {
  std::string name = flag.name_list()[0];
  name.erase(0, name.find_first_not_of('-'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

void E2eEngine::add_flags(FlagSet& flags) {
  flags_ = &flags;
  add_model_options(flags, model_);
  add_candidate_options(flags, candidates_);
  add_rank_options(flags, tp_);
  constexpr int64_t kMost = int64_t{1} << 24;
  auto count = [&](const char* flag, int64_t& value, int64_t least, const char* help) -> Flag& {
    return flags.option(flag, value, help).range(least, kMost).show_default();
  };
  if (throughput()) {
    flags.option("--tokenizer", tokenizer_,
                 "tokenizer.json, or a model that has one: makes the tokens of a dataset, in place of the model's own");
    dataset_.add(flags);
    repeats_flag_ = &count("--repeats", repeats_, 1,
                           "Loads in every process. With candidates as many as take a second, unless given");
  } else {
    count("--batch-size", batch_size_, 1, "Requests at once");
    count("--input-len", input_len_, 1, "Tokens of a prompt");
    count("--output-len", output_len_, 1, "Tokens to generate");
    warmups_flag_ = &count("--num-iters-warmup", warmups_, 0,
                           "Batches before those that are timed. With candidates two, unless given");
    repeats_flag_ = &count("--num-iters,--repeats", iters_, 1,
                           "Batches that are timed. With candidates as many as take a second, unless given");
  }
  count("--max-num-seqs", engine_.max_num_seqs, 1, "Requests that run at the same time");
  count("--max-num-batched-tokens", engine_.max_num_batched_tokens, 1, "Tokens of one step");
  flags.option("--max-model-len", engine_.max_model_len, "Tokens of a sequence at most; else what the load needs")
      .range(1, kMost);
  count("--block-size", engine_.block_size, 1, "Tokens of a block of the KV cache");
  flags.option("--gpu-memory-utilization", engine_.gpu_memory_utilization, "Share of the device's memory to use")
      .show_default();
  flags.flag("!--no-enable-prefix-caching", engine_.enable_prefix_caching, "Compute every prompt from its start");
  flags.flag("--enforce-eager", engine_.enforce_eager, "Launch operator by operator, without recorded steps");
  flags.flag("--no-async-scheduling", engine_.no_run_ahead, "Wait for the tokens of a step before planning the next");
  speculative_.add(flags);
  add_batch_invariant_flag(flags, engine_.batch_invariant);
  flags.flag("--compiled", compiled_,
             "Run steps by plans with generated kernels, compared with the model's tree in alternating processes");
  search_.add(flags, "--compiled");
  count("--rounds", rounds_, 3, "Processes with candidates, or with plans, each between two without");
  flags.flag("--no-compare", no_compare_, "One run with the candidates, or by plans, without the comparison");
  flags.flag("--attribute", attribute_, "After a single run three more, with a clock around every operator");
  flags.option("--leave-unfused", leave_unfused_, "Without fusions around these operators: names with commas between")
      .type_name("OPERATORS");
  flags.option("--output-json", output_json_, "File to write everything measured to").type_name("FILE");
  add_record_options(flags, record_);
}

DatasetOptions E2eEngine::dataset(uint64_t seed, int64_t load) const {
  uint64_t own = seed + 1000003 * static_cast<uint64_t>(load + 1);  // other prompts in every load
  if (throughput()) {
    DatasetOptions o = dataset_.options(own);
    constexpr int64_t kWarmupPrompts = 8;
    if (load < 0) o.num_prompts = std::min(o.num_prompts, kWarmupPrompts);
    return o;
  }
  DatasetOptions o;
  o.num_prompts = batch_size_;
  o.random_input_len = input_len_;
  o.random_output_len = output_len_;
  o.seed = own;
  return o;
}

// No longer than the load needs, unless it is given: the cache then holds more requests.
BatchingOptions E2eEngine::engine_options(const std::vector<BenchRequest>& requests) const {
  BatchingOptions o = engine_;
  if (o.max_model_len == 0) {
    for (const BenchRequest& r : requests)
      o.max_model_len = std::max(o.max_model_len, static_cast<int64_t>(r.prompt_tokens.size()) + r.output_len);
    if (throughput() && dataset_.options(0).random_range_ratio > 0) {
      const DatasetOptions d = dataset_.options(0);  // another load may have longer requests
      auto most = [&](int64_t n) {
        return static_cast<int64_t>(static_cast<double>(n) * (1 + d.random_range_ratio)) + 1;
      };
      o.max_model_len =
          std::max(o.max_model_len, d.random_prefix_len + most(d.random_input_len) + most(d.random_output_len));
    }
  }
  return o;
}

void E2eEngine::run(const CommonOptions& given) {
  CommonOptions common = given;
  engine_.speculative = speculative_.read();
  check_batching_options(engine_);
  if (compiled_)
    refuse_with_plans(engine_);
  else
    search_.refuse_without_plans();
  if (throughput()) dataset_.options(0);
  load_tokenizer(tokenizer_);  // before anything takes long
  if (!output_json_.empty()) check_output_path(output_json_);
  ModelSource source = resolve_model(model_.model);
  if (const TaskInfo& task = task_info(source.config.facts.task); source.config.facts.task != Task::kCausalLM)
    throw Error("{} is {}, and e2e needs a model that writes token by token; run it with fastkernels {}.", source.name,
                task.words, task.verb);
  check_loadable(source, load_options(model_, source, common));
  check_divisible(source, tp_);
  check_model_allows(source, engine_, common.device);
  BatchingOptions before_load = engine_;
  before_load.max_model_len = std::max<int64_t>(engine_.max_model_len, 1);  // what the load needs is looked at later
  speculative_.find_draft(source, model_, before_load, tp_, common);
  const bool candidates = !candidates_.disabled && !find_candidates(candidate_folder(), common.device.kind).empty();
  const bool compare = (candidates || compiled_) && !no_compare_;
  if (compare && launched_ranks() > 1)
    throw UsageError("The comparison starts its processes itself; leave mpirun out and keep --tp, or add --no-compare");
  Ranks ranks(compare ? 1 : tp_, common);
  record_.off = record_.off || !ranks.first();
  Recorder recorder(recorder_options(record_, results_path(fmt::format("e2e_{}", name()), ".jsonl"), false),
                    warn_on_stderr);
  recorder.start(named(make_run(common), record_));
  try {
    if (compare)
      run_compare(common, recorder, candidates);
    else
      run_one_side(source, common, recorder, ranks);
  } catch (const std::exception& e) {
    recorder.end("failed", e.what());
    throw;
  }
}

void E2eEngine::run_one_side(ModelSource source, CommonOptions& common, Recorder& recorder, Ranks& ranks) {
  ThreadPool pool(common.threads);
  std::optional<Tokenizer> tokenizer;
  if (!source.tokenizer.empty()) tokenizer = Tokenizer::from_file(source.tokenizer);
  PromptTokens tokens;
  tokens.vocab_size = source.config.facts.vocab_size;
  tokens.bytes_are_tokens = model_.load_format == "dummy";
  const std::optional<Tokenizer> given = load_tokenizer(tokenizer_);
  if (given) tokens.vocab_size = std::min(tokens.vocab_size, given->vocab_size());
  // The texts of random prompts are not used.
  if (throughput() && !dataset_.options(0).path.empty())
    tokens.tokenizer = given ? &*given : tokenizer ? &*tokenizer : nullptr;
  auto load = [&](int64_t i) {
    DatasetOptions options = dataset(common.seed, i);
    if (i >= 0)  // the warm-up is shorter
      options.warn = [&](const std::string& sentence) {
        if (warning_.empty() && ranks.first()) warn_on_stderr(sentence);
        warning_ = sentence;
      };
    return make_requests(options, tokens);
  };
  const BatchingOptions options = engine_options(load(0));
  if (int64_t context = source.config.facts.max_position_embeddings;
      engine_.max_model_len == 0 && options.max_model_len > context)
    throw Error("{} has a context of {} tokens, and a request of this load has up to {}; ask for shorter ones.",
                source.name, context, options.max_model_len);
  speculative_.find_draft(source, model_, options, tp_, common);
  std::set<std::string, std::less<>> unfused;
  for (size_t begin = 0; begin < leave_unfused_.size();) {
    size_t end = std::min(leave_unfused_.find(',', begin), leave_unfused_.size());
    unfused.insert(leave_unfused_.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& op : unfused) Registry::instance().at(op);
  leave_unfused(std::move(unfused));
  judged_ = activate_candidates(candidates_, common, record_.db);
  speculative_.load_draft(model_, common, pool);
  TimedModel loaded = load_timed(model_, source, common, pool, ranks.communicator());
  uses_ = candidate_uses(*loaded.model.root);
  std::unique_ptr<CompiledPath> compiled;
  if (compiled_) {
    Progress progress(common);
    compiled =
        compiled_engine(loaded.model, search_.options(judged_, candidates_, common, progress), pool, options, progress);
  }
  BatchingEngine engine(loaded.model, pool, tokenizer, options, speculative_.draft(loaded.model));
  EngineBenchOptions bench;
  bench.warmups = throughput() ? 1 : warmups_;
  bench.repeats = throughput() ? repeats_ : iters_;
  bench.attribute = attribute_;
  bench.load = load;
  EngineBenchResult result;
  {
    Progress progress(common);
    bench.progress = [&](std::string_view what) { progress.show(what); };
    result = run_engine_bench(engine, bench);
  }
  if (compiled) plan_ = compiled->to_json();
  dispatches_ = gathered_dispatches(ranks, collect_dispatches(*loaded.model.root));
  ranks.finish();
  Json json = result_json(loaded.model, result, common);
  record_engine_report(recorder, json);
  if (!judged_.empty()) recorder.add(pairs_event("tags", {{"candidates_judged", judged_at_worst(judged_)}}));
  for (const CandidateUse& use : uses_) record_source(recorder, use.op, common);
  recorder.end("finished");
  if (!output_json_.empty()) write_report(output_json_, json);
  if (ranks.first()) print_engine_report(json, common);
}

void E2eEngine::run_compare(const CommonOptions& common, Recorder& recorder, bool candidates) {
  if (candidates) judged_ = candidate_records(candidates_, common, record_.db);
  SidesRequest request;
  request.arguments = {"e2e", name(), "--json", "--quiet", "--no-history", "--no-compare"};
  auto add = [&](const std::string& flag, const auto& value) {
    request.arguments.push_back(fmt::format("{}={}", flag, value));
  };
  add("--device", device_name(common.device));
  add("--threads", common.threads);
  add("--seed", common.seed);
  constexpr int kFewWarmups = 2;  // in each of many processes
  if (!throughput() && !warmups_flag_->given()) add("--num-iters-warmup", kFewWarmups);
  // The same flags for every process, but for those about candidates, output and history.
  static const std::set<std::string> kOwn = {"--no-compare",
                                             "--rounds",
                                             "--repeats",
                                             "--num-iters",
                                             "--cxxflags",
                                             "--allow-libraries",
                                             "--db",
                                             "--no-history",
                                             "--allow-incorrect",
                                             "--output-json",
                                             "--attribute",
                                             "--name",
                                             "--tag",
                                             "--note",
                                             "--leave-unfused",
                                             "--compiled",
                                             "--no-candidate-kernels"};
  const std::vector<std::string> names = SearchFlags::names();
  const std::set<std::string> of_search(names.begin(), names.end());
  for (const Flag& flag : flags_->flags()) {
    const std::string name = flag.name_list()[0];
    if (!flag.given() || kOwn.contains(name) || of_search.contains(name)) continue;
    if (flag.kind() == FlagKind::kSwitch)
      request.arguments.push_back(name);
    else
      add(name, flag.texts().back());
  }
  const std::vector<std::string> without = {"--no-candidate-kernels"};
  std::vector<std::string> with = {"--allow-incorrect"};  // the warning was printed above
  if (!candidates_.cxxflags.empty()) with.push_back("--cxxflags=" + candidates_.cxxflags);
  if (candidates_.allow_libraries) with.emplace_back("--allow-libraries");
  request.compiled = compiled_;
  request.baseline_arguments = compiled_ && candidates ? with : without;
  request.candidate_arguments = candidates ? with : without;
  if (compiled_) {
    request.candidate_arguments.emplace_back("--compiled");
    for (std::string& word : search_.arguments()) request.candidate_arguments.push_back(std::move(word));
  }
  for (const CandidateRecord& r : judged_) request.operators.push_back(r.op);
  request.rounds = rounds_;
  if (repeats_flag_->given()) request.repeats = throughput() ? repeats_ : iters_;
  Sides sides = run_sides(request, common);
  if (sides.first_baseline.contains("warning")) warn_on_stderr(sides.first_baseline["warning"].get<std::string>());
  Json json = compare_json(throughput(), sides, judged_);
  record_engine_report(recorder, json);
  if (!judged_.empty()) recorder.add(pairs_event("tags", {{"candidates_judged", judged_at_worst(judged_)}}));
  for (const CandidateRecord& r : judged_) record_source(recorder, r.op, common);
  recorder.end("finished");
  if (!output_json_.empty()) write_report(output_json_, json);
  print_engine_report(json, common);
}

RunRecord E2eEngine::make_run(const CommonOptions& common) const {
  RunRecord run = new_run("e2e", common, machine_info());
  run.name = fmt::format("e2e {} {}", name(), model_.model);
  run.mode = name();
  for (const Flag& flag : flags_->flags())
    if (!flag.is_hidden() && (flag.given() || flag.shows_default()) && flag.kind() != FlagKind::kSwitch)
      run.params[parameter_name(flag)] = flag.value();
  return run;
}

Json E2eEngine::result_json(const Model& model, const EngineBenchResult& result, const CommonOptions& common) const {
  Json json = {{"version", FK_VERSION},
               {"type", name()},
               {"mode", "single"},
               {"model", model.name},
               {"device", device_name(common.device)},
               {"dtype", dtype_name(model.config.facts.dtype)},
               {"threads", common.threads},
               {"tp", tp_},
               {"uses", describe_uses(uses_)},
               {"doubt", describe_judged(judged_)}};
  json.update(engine_metrics_json(throughput(), result));
  json["machine"] = to_json(machine_info());
  json["candidates"] = to_json(uses_, judged_);
  json["cxxflags"] = candidates_.cxxflags;
  if (!plan_.is_null()) json["plan"] = plan_;
  if (!warning_.empty()) json["warning"] = warning_;
  if (speculative_.given()) json["speculative_config"] = speculative_.to_json();
  json.update(dispatches_);
  return json;
}

}  // namespace fk
