// ttft: measures a model's time to first token and time per token, or an encoder's time for a batch, compared with the
// limits of this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>

#include "bench/ttft/step_trace.h"
#include "bench/ttft/ttft.h"
#include "bench/ttft/ttft_outputs.h"
#include "candidate/compile_cache.h"
#include "cli/candidate_options.h"
#include "cli/compiled_path.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/record_options.h"
#include "cli/table.h"
#include "cli/ttft_compare.h"
#include "cli/ttft_suite.h"
#include "cli/verb.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/output_file.h"
#include "measure/machine_info.h"
#include "measure/roofline.h"

namespace fk {
namespace {

Json samples(const TimedWork& work) {
  Json json = {{"median_ms", work.median_ms()}, {"samples_ms", work.samples_ms}};
  if (!work.floors_ms.empty())
    json.update({{"floor_share", work.floor_share()},
                 {"bytes", work.bytes},
                 {"flops", work.flops},
                 {"floors_ms", work.floors_ms}});
  return json;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class Ttft final : public Verb {
 public:
  Ttft()
      : Verb("ttft", "Measure a model's time to first token and time per token",
             {"fastkernels ttft --model tiny-llama --load-format dummy",
              "fastkernels ttft --model llama-3.2-1b --load-format dummy --prompt-tokens 512 --no-sequential",
              "fastkernels ttft --model ./my-checkpoint --dtype f32 --iters 5 --json",
              "fastkernels ttft --model llama-3-8b --load-format dummy --quantization fp8 --device cuda",
              "fastkernels ttft --model llama-3.2-1b --load-format dummy --tp 2   # on two ranks",
              "fastkernels ttft --model bge-m3 --load-format dummy --batch-size 32   # an encoder: time of one pass",
              "fastkernels ttft --model tiny-llama --load-format dummy --compare   # do your candidates make it "
              "faster?",
              "fastkernels ttft --model llama-3.2-1b --load-format dummy --path eager --path compiled",
              "fastkernels ttft --model tiny-qwen3 --load-format dummy --path compiled --trace trace.json",
              "fastkernels ttft --suite bench/ttft.yaml --mode ur-test   # all models, all paths, then the sweeps"}) {}

  void add_flags(FlagSet& flags) override {
    add_model_options(flags, model_);
    flags.flags().front().required(false);  // --model: a suite names its models
    add_suite_options(flags, suite_);
    add_candidate_options(flags, candidates_);
    add_rank_options(flags, tp_);
    auto count = [&](const char* flag, int64_t& value, int64_t least, const char* help) {
      return &flags.option(flag, value, help).range(least, int64_t{1} << 24).show_default();
    };
    count("--prompt-tokens", options_.prompt_tokens, 1, "Tokens of the prompt, or of a text for an encoder");
    flags.option("--prompt-ids", options_.prompt_ids, "The prompt itself as token ids, instead of random ones")
        .type_name("ID");
    count("--decode-tokens", options_.decode_tokens, 2, "Tokens after it; the first warms up and is not timed");
    count("--batch-size", options_.batch_size, 1, "Sequences at once, each with a prompt of its own; texts or images");
    iters_flag_ =
        count("--iters", options_.iters, 1,
              "Iterations, each with a prompt of its own; medians are reported. With --compare as many as take "
              "a second, unless given");
    count("--warmups", options_.warmups, 0, "Iterations before them that are not timed");
    add_record_options(flags, record_);
    flags.flag("!--no-sequential", options_.sequential, "Do not also feed the prompt token by token");
    flags.flag("!--no-floors", options_.floors, "Do not measure this machine: times only");
    flags.flag("--compare", compare_,
               "With candidates against without, in alternating processes: whether they make the model faster");
    count("--rounds", rounds_, 3,
          "Processes with candidates in --compare, or of another path, each between two without, or of the first path");
    flags
        .option("--path", paths_,
                "How the model runs: eager (its tree, without candidates), candidate (with them) or compiled (by a "
                "plan). Given several times, each is compared with the first, in alternating processes")
        .one_of({kEager, kCompiled, kCandidate});
    search_.add(flags, "--path compiled");
    flags.option("--row-of", row_of_, "The process of the suite that this one measures a row for").hidden();
    flags
        .option("--trace", trace_,
                "Write a trace of one prefill and some steps, with a span for every kernel, for ui.perfetto.dev")
        .type_name("FILE");
    flags.flag("--debug-sequential", debug_sequential_,
               "With --path compiled: stop after the first step that fails or gives a number that is not finite, and "
               "name it");
  }

  void run(const CommonOptions& given) override {
    CommonOptions common = given;
    if (flags().find("--suite")->given()) {
      check_suite_flags(flags());
      return run_suite(suite_, record_, candidates_, common);
    }
    check_no_suite_flags(flags());
    if (model_.model.empty()) throw UsageError("--model is required; see `fastkernels ttft --help`");
    if (row_of_ != 0) end_with_process(row_of_);
    if (!options_.prompt_ids.empty()) {
      if (options_.batch_size != 1) throw UsageError("--prompt-ids is one prompt; leave --batch-size out");
      if (flags().find("--prompt-tokens")->given())
        throw UsageError("--prompt-ids is the prompt itself; leave --prompt-tokens out");
      options_.prompt_tokens = std::ssize(options_.prompt_ids);
    }
    check_options(options_);
    if (compare_ && candidates_.disabled)
      throw UsageError("--compare runs the model with candidates and without; leave --no-candidate-kernels out");
    if (compare_ && launched_ranks() > 1)
      throw UsageError("--compare starts its processes itself; leave mpirun out and keep --tp");
    check_paths();
    const bool several = compare_ || paths_.size() > 1;
    if (several && launched_ranks() > 1)
      throw UsageError("Several paths start their processes themselves; leave mpirun out and keep --tp");
    ModelSource source = resolve_model(model_.model);
    if (!is_stateless(source.config.facts.task)) source.config.require_task(Task::kCausalLM, source.name, "ttft");
    if (!options_.prompt_ids.empty() && is_stateless(source.config.facts.task))
      throw UsageError("--prompt-ids is a prompt of a language model, and {} is none; leave it out", source.name);
    check_divisible(source, tp_);
    Ranks ranks(several ? 1 : tp_, common);
    record_.off = record_.off || !ranks.first();
    Recorder recorder(recorder_options(record_, results_path("ttft", ".jsonl"), false), warn_on_stderr);
    recorder.start(named(make_run(common), record_));
    try {
      if (compare_)
        run_compare(common, recorder);
      else if (several)
        run_paths(common, recorder);
      else
        run_recorded(source, common, ranks, recorder);
    } catch (const std::exception& e) {
      recorder.end("failed", e.what());
      throw;
    }
  }

 private:
  static constexpr const char *kEager = "eager", *kCompiled = "compiled", *kCandidate = "candidate";

  bool has_path(std::string_view path) const { return std::find(paths_.begin(), paths_.end(), path) != paths_.end(); }

  void check_paths() {
    if (!paths_.empty() && compare_)
      throw UsageError("--compare is --path eager --path candidate; give one of the two");
    for (size_t i = 0; i < paths_.size(); ++i)
      if (std::find(paths_.begin(), paths_.begin() + static_cast<std::ptrdiff_t>(i), paths_[i]) !=
          paths_.begin() + static_cast<std::ptrdiff_t>(i))
        throw UsageError("--path {} is given twice", paths_[i]);
    if (candidates_.disabled && has_path(kCandidate))
      throw UsageError("--path candidate runs the model with candidates; leave --no-candidate-kernels out");
    if (debug_sequential_ && (paths_.size() != 1 || paths_[0] != kCompiled))
      throw UsageError("--debug-sequential checks the steps of a plan; give --path compiled, and no other path");
    if (!has_path(kCompiled)) search_.refuse_without_plans();
    if (trace_.empty()) return;
    if (compare_ || paths_.size() > 1)
      throw UsageError("--trace shows one way to run the model; give one --path, or none");
    check_output_path(trace_);
  }

  void run_recorded(const ModelSource& source, const CommonOptions& common, Ranks& ranks, Recorder& recorder) {
    ThreadPool pool(common.threads);
    candidates_.disabled = candidates_.disabled || has_path(kEager);
    judged_ = activate_candidates(candidates_, common, record_.db);
    if (has_path(kCandidate) && judged_.empty())
      throw Error("{}", no_candidates_sentence(candidate_folder(), common.device.kind));
    stage("loading the model");
    TimedModel loaded = load_timed(model_, source, common, pool, ranks.communicator());
    uses_ = candidate_uses(*loaded.model.root);
    std::optional<CompiledPath> compiled;
    Progress progress(common);
    if (has_path(kCompiled)) {
      stage("searching");
      compiled.emplace(loaded.model, search_.options(judged_, candidates_, common, progress),
                       CompiledPath::Options{.check_every_step = debug_sequential_});
      const std::vector<StepSizes> prompts = {{options_.batch_size, options_.prompt_tokens}};
      compiled->leave_slower_to_tree(pool,
                                     {{GraphPhase::kPrefill, prompts},
                                      {GraphPhase::kDecode, {{options_.batch_size, 1}}},
                                      {GraphPhase::kEncode, prompts}},
                                     progress);
    }
    stage("measuring");
    options_.seed = common.seed;
    options_.progress = [&](std::string_view what) { progress.show(what); };
    TtftResult result = run_ttft(loaded.model, pool, options_);
    if (compiled) plan_ = compiled->to_json();
    if (!paths_.empty()) {
      progress.show("the outputs");
      stage("the outputs");
      outputs_ = run_outputs(loaded.model, pool, options_);
    }
    // A suite keeps no picture of a plan.
    if (!trace_.empty() || (compiled && row_of_ == 0)) {
      progress.show("a trace");
      constexpr int64_t kTracedSteps = 4;
      StepTrace trace;
      trace_passes(loaded.model, pool, options_, kTracedSteps, trace);
      if (compiled) plan_["passes"] = trace.steps();
      if (!trace_.empty() && ranks.first())
        write_file(trace_, dump_json(trace.to_json(fmt::format("{}, {}", loaded.model.name, path_name()))) + "\n");
    }
    options_.progress = {};
    dispatches_ = gathered_dispatches(ranks, result.dispatches);
    ranks.finish();
    record_result(recorder, loaded, result, common);
    if (common.json)
      print_out(dump_json(result_json(loaded, result, common)) + "\n");
    else if (common.csv)
      row_table(loaded, result, common).print(common);
    else
      print_text(loaded, result, common);
  }

  void stage(const char* name) const {
    if (row_of_ != 0) std::fputs(fmt::format("{}{}\n", kStagePrefix, name).c_str(), stderr);
  }

  // In the history and in results.
  std::string path_name() const { return !paths_.empty() ? paths_[0] : uses_.empty() ? kEager : kCandidate; }

  // Of a child process that times one side.
  CompareRequest child_request(const CommonOptions& common) const {
    CompareRequest request;
    request.arguments = {"ttft", "--json", "--quiet", "--no-history", "--no-floors", "--no-sequential"};
    auto add = [&](const char* flag, const auto& value) {
      request.arguments.push_back(fmt::format("{}={}", flag, value));
    };
    add("--model", model_.model);
    add("--load-format", model_.load_format);
    add("--dtype", model_.dtype);
    add("--weight-seed", model_.weight_seed);
    if (!model_.quantization.empty()) add("--quantization", model_.quantization);
    add("--tp", tp_);
    add("--device", device_name(common.device));
    add("--threads", common.threads);
    add("--seed", common.seed);
    if (options_.prompt_ids.empty()) add("--prompt-tokens", options_.prompt_tokens);
    for (int64_t id : options_.prompt_ids) add("--prompt-ids", id);
    add("--decode-tokens", options_.decode_tokens);
    add("--batch-size", options_.batch_size);
    add("--warmups", options_.warmups);
    request.rounds = rounds_;
    if (iters_flag_->given()) request.iters = options_.iters;
    request.doubt = describe_judged(judged_);
    return request;
  }

  // More, for a side with candidates.
  std::vector<std::string> candidate_arguments() const {
    std::vector<std::string> arguments = {"--allow-incorrect"};  // the warning is printed by this process
    if (!candidates_.cxxflags.empty()) arguments.push_back("--cxxflags=" + candidates_.cxxflags);
    if (candidates_.allow_libraries) arguments.push_back("--allow-libraries");
    return arguments;
  }

  // Everything is timed in child processes; this one only looks up the candidates in the history.
  void run_compare(const CommonOptions& common, Recorder& recorder) {
    judged_ = candidate_records(candidates_, common, record_.db);
    if (judged_.empty()) throw Error("{}", no_candidates_sentence(candidate_folder(), common.device.kind));
    CompareRequest request = child_request(common);
    request.base = {"without", "without candidates", kEager, {"--no-candidate-kernels"}};
    request.other = {"with", "with candidates", kCandidate, candidate_arguments()};
    CompareResult result = run_comparison(request, common);
    record_comparison(recorder, result, judged_at_worst(judged_));
    for (const CandidateRecord& r : judged_) record_source(recorder, r.op, common);
    recorder.end("finished");
    print_comparison(result, common);
  }

  // Likewise: every path against the first.
  void run_paths(const CommonOptions& common, Recorder& recorder) {
    if (!candidates_.disabled) judged_ = candidate_records(candidates_, common, record_.db);
    if (has_path(kCandidate) && judged_.empty())
      throw Error("{}", no_candidates_sentence(candidate_folder(), common.device.kind));
    auto side = [&](const std::string& path) {
      CompareSide s{path, "of the path " + path, path, {"--path=" + path}};
      if (path == kEager) return s;
      const std::vector<std::string> more =
          judged_.empty() ? std::vector<std::string>{"--no-candidate-kernels"} : candidate_arguments();
      s.arguments.insert(s.arguments.end(), more.begin(), more.end());
      if (path != kCompiled) return s;
      for (std::string& word : search_.arguments()) s.arguments.push_back(std::move(word));
      return s;
    };
    std::vector<CompareResult> results;
    for (size_t i = 1; i < paths_.size(); ++i) {
      CompareRequest request = child_request(common);
      request.base = side(paths_[0]);
      request.other = side(paths_[i]);
      results.push_back(run_comparison(request, common));
    }
    record_paths(recorder, results, judged_at_worst(judged_));
    for (const CandidateRecord& r : judged_) record_source(recorder, r.op, common);
    recorder.end("finished");
    print_paths(results, common);
  }

  static void record_source(Recorder& recorder, const std::string& op, const CommonOptions& common) {
    std::string path = find_candidate(candidate_folder(), Registry::instance().at(op), common.device.kind).path;
    recorder.add(candidate_events({op, path, file_text(path).value_or("")}));
  }

  RunRecord make_run(const CommonOptions& common) const {
    RunRecord run = new_run("ttft", common, machine_info());
    run.name = "ttft " + model_.model;
    run.mode = compare_ ? "compare" : paths_.size() > 1 ? "paths" : "single";
    auto add = [&](const char* key, const auto& value) { run.params[key] = fmt::format("{}", value); };
    add("model", model_.model);
    add("load_format", model_.load_format);
    if (!model_.quantization.empty()) add("quantization", model_.quantization);
    add("dtype", model_.dtype);
    add("prompt_tokens", options_.prompt_tokens);
    add("decode_tokens", options_.decode_tokens);
    add("batch_size", options_.batch_size);
    add("iters", options_.iters);
    add("warmups", options_.warmups);
    add("tp", tp_);
    if (!paths_.empty()) run.params["path"] = fmt::format("{}", fmt::join(paths_, ","));
    return run;
  }

  void record_result(Recorder& recorder, const TimedModel& loaded, const TtftResult& r,
                     const CommonOptions& common) const {
    TtftRecord t;
    t.path = path_name();
    t.model = t.model_key = loaded.model.name;
    t.device = device_name(common.device);
    t.dtype = dtype_name(loaded.model.config.facts.dtype);
    t.threads = common.threads;
    t.prompt_tokens = tokens_each(loaded);
    t.iters = options_.iters;
    t.decode_tokens = r.decode ? options_.decode_tokens : 0;
    t.ttft_ms = r.prefill.median_ms();
    t.ttft_ms_mean = mean(r.prefill.samples_ms);
    if (options_.floors) t.prefill_floor_share = r.prefill.floor_share();
    t.throughput_tps = tokens_per_second(loaded, r);
    if (r.decode) {
      t.tpot_ms = r.decode->median_ms();
      if (options_.floors) t.decode_floor_share = r.decode->floor_share();
    }
    t.load_ms = loaded.load_ms;
    t.weights_bytes = static_cast<int64_t>(loaded.model.weights.size_bytes());
    t.peak_memory_bytes = static_cast<int64_t>(r.peak_memory_bytes);
    t.note = describe_judged(judged_);
    if (!plan_.is_null()) set_search(t, plan_);
    t.samples = {{"prefill", r.prefill.samples_ms}};
    std::vector<MetricPoint> points = {{"ttft_ms", *t.ttft_ms, 0, now_us()},
                                       {"mean_ttft_ms", *t.ttft_ms_mean, 0, now_us()},
                                       {"tokens_per_second", *t.throughput_tps, 0, now_us()}};
    if (r.decode) {
      t.samples["decode"] = r.decode->samples_ms;
      points.push_back({"tpot_ms", *t.tpot_ms, 0, now_us()});
      points.push_back({"mean_tpot_ms", mean(r.decode->samples_ms), 0, now_us()});
    }
    if (r.sequential) {
      t.ttft_sequential_ms = r.sequential->median_ms();
      t.samples["sequential"] = r.sequential->samples_ms;
      points.push_back({"ttft_sequential_ms", *t.ttft_sequential_ms, 0, now_us()});
    }
    recorder.add(ttft_event(t));
    if (!judged_.empty()) recorder.add(pairs_event("tags", {{"candidates_judged", judged_at_worst(judged_)}}));
    recorder.add(metrics_event(points));
    for (const CandidateUse& use : uses_) record_source(recorder, use.op, common);
    recorder.artifact("results/ttft.json", dump_json(result_json(loaded, r, common)) + "\n");
    recorder.end("finished");
  }

  // Of one sequence of the first pass: an image has as many as it has patches.
  int64_t tokens_each(const TimedModel& loaded) const {
    const ModelFacts& facts = loaded.model.config.facts;
    return facts.task == Task::kImageEncoder ? facts.num_patches() : options_.prompt_tokens;
  }
  // Of decoding, or of the pass of a model that does not decode.
  double tokens_per_second(const TimedModel& loaded, const TtftResult& r) const {
    auto batch = static_cast<double>(options_.batch_size);
    if (r.decode) return batch * 1e3 / r.decode->median_ms();
    return batch * static_cast<double>(tokens_each(loaded)) * 1e3 / r.prefill.median_ms();
  }

  Table row_table(const TimedModel& loaded, const TtftResult& r, const CommonOptions& common) const {
    Table table({{"model", "model"},
                 {"device", "device"},
                 {"dtype", "dtype"},
                 {"threads", "threads"},
                 {"tp", "ranks"},
                 {"prompt_tokens", "prompt tokens"},
                 {"decode_tokens", "decode tokens"},
                 {"batch_size", "batch"},
                 {"iters", "iterations"},
                 {"ttft_sequential_ms", "TTFT sequential ms"},
                 {"ttft_prefill_ms", "TTFT prefill ms"},
                 {"tpot_ms", "TPOT ms"},
                 {"tokens_per_second", "tok/s"},
                 {"decode_gbps", "decode GB/s"},
                 {"decode_floor_share", "share of floor"},
                 {"prefill_tokens_per_second", "prefill tok/s"},
                 {"prefill_tflops", "prefill TFLOP/s"},
                 {"prefill_floor_share", "share of floor"},
                 {"load_ms", "load ms"},
                 {"weights_bytes", "weights"},
                 {"peak_memory_bytes", "peak memory"},
                 {"judged", "judged"},
                 {"path", "path"}});
    auto batch = static_cast<double>(options_.batch_size);
    table.add_row({loaded.model.name,
                   device_name(common.device),
                   std::string(dtype_name(loaded.model.config.facts.dtype)),
                   common.threads,
                   tp_,
                   tokens_each(loaded),
                   r.decode ? Cell(options_.decode_tokens) : Cell(),
                   options_.batch_size,
                   options_.iters,
                   r.sequential ? Cell(r.sequential->median_ms(), 3) : Cell(),
                   Cell(r.prefill.median_ms(), 3),
                   r.decode ? Cell(r.decode->median_ms(), 3) : Cell(),
                   Cell(tokens_per_second(loaded, r), 2),
                   r.decode ? Cell(r.decode->gbps(), 2) : Cell(),
                   r.decode ? Cell(r.decode->floor_share(), 3) : Cell(),
                   Cell(batch * 1e3 * static_cast<double>(tokens_each(loaded)) / r.prefill.median_ms(), 1),
                   Cell(r.prefill.tflops(), 3),
                   Cell(r.prefill.floor_share(), 3),
                   Cell(loaded.load_ms, 1),
                   loaded.model.weights.size_bytes(),
                   r.peak_memory_bytes,
                   judged_.empty() ? Cell() : Cell(judged_at_worst(judged_)),
                   path_name()});
    return table;
  }

  Json result_json(const TimedModel& loaded, const TtftResult& r, const CommonOptions& common) const {
    Json json = {{"version", FK_VERSION}, {"results", row_table(loaded, r, common).to_json()}};
    json["samples"] = {{"prefill", samples(r.prefill)}};
    if (r.decode) json["samples"]["decode"] = samples(*r.decode);
    if (r.sequential) json["samples"]["sequential"] = samples(*r.sequential);
    if (options_.floors) json["measured"] = to_json(r.machine);
    json["machine"] = to_json(machine_info());
    json["candidates"] = to_json(uses_, judged_);
    json["cxxflags"] = candidates_.cxxflags;
    if (!plan_.is_null()) json["plan"] = plan_;
    if (outputs_) json["outputs"] = to_json(*outputs_);
    json.update(dispatches_);
    return json;
  }

  void print_text(const TimedModel& loaded, const TtftResult& r, const CommonOptions& common) const {
    const Model& model = loaded.model;
    std::string where =
        common.device == kCpu
            ? fmt::format("cpu with {} thread{}{}", common.threads, common.threads == 1 ? "" : "s",
                          tp_ == 1 ? "" : fmt::format(" on each of {} ranks", tp_))
            : fmt::format("{} ({})", device_name(common.device), device_runtime(common.device).facts().name);
    fk::print_text(fmt::format("{}, {}, {} on {}: {} of weights{} ready in {:.1f} s, peak memory {}\n\n", model.name,
                               model.config.architecture(), dtype_name(model.config.facts.dtype), where,
                               human_bytes(model.weights.size_bytes()), tp_ == 1 ? "" : " a rank",
                               loaded.load_ms * 1e-3, human_bytes(r.peak_memory_bytes)));
    if (std::string line = describe_uses(uses_); !line.empty()) {
      std::string doubt = describe_judged(judged_);
      fk::print_text(line + (doubt.empty() ? "" : fmt::format(" ({})", doubt)) + "\n\n");
    }
    if (!plan_.is_null()) print_out(fmt::format("compiled: {}\n\n", plan_.at("text").get<std::string>()));
    Table table({{"what", "what"},
                 {"tokens", "tokens"},
                 {"ms", "ms"},
                 {"tok_s", "tok/s"},
                 {"gbps", "GB/s"},
                 {"tflops", "TFLOP/s"},
                 {"floor", "floor ms"},
                 {"share", "of floor"}});
    auto row = [&](const std::string& what, const TimedWork& w, int64_t of_each) {
      int64_t tokens = of_each * options_.batch_size;
      table.add_row({what, tokens, Cell(w.median_ms(), 3), Cell(1e3 * static_cast<double>(tokens) / w.median_ms(), 1),
                     Cell(w.gbps(), 2), Cell(w.tflops(), 3), Cell(w.floor_ms(), 3),
                     options_.floors ? Cell(fmt::format("{:.1f} %", 100 * w.floor_share())) : Cell()});
    };
    if (r.sequential) row("TTFT, token by token", *r.sequential, options_.prompt_tokens);
    if (r.decode) {
      row("TTFT, one prefill", r.prefill, options_.prompt_tokens);
      row("TPOT", *r.decode, 1);
    } else {
      bool images = model.config.facts.task == Task::kImageEncoder;
      row(fmt::format("{} {}{}", options_.batch_size, images ? "image" : "text", options_.batch_size == 1 ? "" : "s"),
          r.prefill, tokens_each(loaded));
    }
    print_out(table.to_text());
    if (!r.decode)
      print_out(fmt::format("\n{:.2f} inputs per second in batches of {}\n",
                            static_cast<double>(options_.batch_size) * 1e3 / r.prefill.median_ms(),
                            options_.batch_size));
    if (!options_.floors) return;
    print_out(
        fmt::format("\nfloors from speeds measured around each iteration; best seen: {:.1f} GB/s read, {:.3f} TFLOP/s "
                    "{}; medians of {} iteration{}\n",
                    r.machine.read_gbps.best, best_speeds(r.machine, model.config.facts.dtype).compute * 1e-12,
                    dtype_name(model.config.facts.dtype), options_.iters, options_.iters == 1 ? "" : "s"));
  }

  ModelOptions model_;
  CandidateOptions candidates_;
  std::vector<CandidateUse> uses_;
  std::vector<CandidateRecord> judged_;
  TtftOptions options_;
  RecordOptions record_;
  bool compare_ = false;
  std::vector<std::string> paths_;
  std::string trace_;
  bool debug_sequential_ = false;
  SearchFlags search_;
  int64_t row_of_ = 0;  // the id of a suite's process; 0: of none
  SuiteOptions suite_;
  Json plan_;                           // of the path compiled
  std::optional<TtftOutputs> outputs_;  // where a path is given
  int64_t rounds_ = 8;
  int64_t tp_ = 1;
  Json dispatches_;
  const Flag* iters_flag_ = nullptr;
};

Ttft ttft_verb;

}  // namespace
}  // namespace fk
