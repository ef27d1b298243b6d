#include "cli/e2e_serve.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "bench/e2e/arrivals.h"
#include "bench/e2e/openai_client.h"
#include "candidate/compile.h"
#include "cli/e2e_report.h"
#include "cli/e2e_serve_sides.h"
#include "cli/output.h"
#include "core/error.h"
#include "measure/machine_info.h"
#include "models/resolve.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

// "inf", or requests per second. 0 stands for inf.
double parse_rate(const std::string& text) {
  if (text == "inf") return 0;
  char* end = nullptr;
  double rate = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(rate > 0) || !std::isfinite(rate))
    throw UsageError("--request-rate takes requests per second above 0, or inf, not '{}'.", text);
  return rate;
}

// Sentences of servers may end with a full stop or without.
std::string sentence_end(const std::string& text) { return text + (text.ends_with('.') ? "" : "."); }

// After everything was printed: a program that reads the exit code alone must see that the numbers are not of all
// requests.
void fail_where_requests_failed(const ServeReport& report) {
  int64_t failed = 0, all = 0;
  std::string why;
  for (const ServeLoad& load : report.loads) {
    failed += load.metrics.failed;
    all += load.metrics.failed + load.metrics.completed;
    if (why.empty() && !load.metrics.failures.empty()) why = load.metrics.failures.begin()->first;
  }
  if (failed > 0) throw Error("{} of {} requests failed: {}", failed, all, sentence_end(why));
}

}  // namespace

void E2eServe::add_flags(FlagSet& flags) {
  flags_ = &flags;
  flags.option("--base-url", base_url_, "Address of the server, instead of --host and --port").type_name("URL");
  flags.option("--host", host_, "Host of the server").show_default();
  flags.option("--port", port_, "Port of the server").range(1, 65535).show_default();
  flags.option("--endpoint", endpoint_, "Path; one that ends in chat/completions gets messages").show_default();
  flags.option("--model", model_, "Name that the server knows the model by; without it the first it names");
  flags.option("--tokenizer", tokenizer_,
               "tokenizer.json, or a model that has one: prompts are text instead of token ids");
  flags.option("--vocab-size", vocab_size_, "Random token ids are below this; without it those of the tokenizer")
      .range(1, int64_t{1} << 24);
  dataset_.add(flags);
  flags.option("--request-rate", rates_, "Requests per second, or inf: all at once. Several: one load after the other")
      .show_default();
  flags.option("--burstiness", burstiness_, "1: Poisson arrivals; below 1 in bursts, above 1 evenly").show_default();
  flags.option("--ramp-up-strategy", ramp_up_, "The rate grows over the load, instead of --request-rate")
      .one_of({"linear", "exponential"});
  flags.option("--ramp-up-start-rps", start_rps_, "Its first rate");
  flags.option("--ramp-up-end-rps", end_rps_, "Its last rate");
  flags.option("--max-concurrency", concurrency_, "Requests at once at most. Several: one load after the other")
      .range(1, int64_t{1} << 20);
  flags.option("--goodput", goodput_, "Most ms of a good request, as ttft:200 tpot:50 e2el:5000");
  flags.option("--temperature", temperature_, "Sent with every request").show_default();
  flags.flag("--ignore-eos", ignore_eos_, "Ask the server to generate all tokens, whatever they are");
  flags.option("--request-timeout", timeout_s_, "Seconds after which a request has failed").check(seconds_complaint);
  flags.option("--output-json", output_json_, "File to write everything measured to").type_name("FILE");
  flags.flag("--compiled", compiled_,
             "Start servers of --model by turns, by its tree and by plans, and compare what their clients see");
  flags.option("--serve-flags", serve_flags_, "With --compiled: flags of these servers, as '--load-format dummy'")
      .check([](const std::string& text) {
        return quotes_closed(text) ? "" : fmt::format("{} opens a quote that it does not close", text);
      })
      .type_name("FLAGS");
  search_.add(flags, "--compiled");
  flags.option("--rounds", rounds_, "With --compiled: servers with plans, each between two without")
      .range(3, 1 << 10)
      .show_default();
  flags.option("--repeats", repeats_, "With --compiled: loads on each server").range(1, 1 << 10).show_default();
  add_record_options(flags, record_);
}

void E2eServe::run(const CommonOptions& common) {
  check_compiled_flags();
  if (rates_.size() > 1 && concurrency_.size() > 1)
    throw UsageError("Give several values of --request-rate or of --max-concurrency, not of both.");
  const Goodput goodput = parse_goodput(goodput_);
  DatasetOptions dataset = dataset_.options(common.seed);
  dataset.warn = warn_once();
  ClientOptions client;
  client.server = base_url_.empty() ? ServerAddress{host_, std::to_string(port_), ""} : parse_base_url(base_url_);
  client.style = {endpoint_, model_, temperature_, ignore_eos_};
  client.timeout_s = timeout_s_;
  if (const char* key = std::getenv("OPENAI_API_KEY")) client.api_key = key;
  std::vector<ServeLoad> loads;
  for (const std::string& rate : rates_) {
    for (size_t i = 0; i < std::max<size_t>(concurrency_.size(), 1); ++i)
      loads.push_back({parse_rate(rate), concurrency_.empty() ? 0 : concurrency_[i], {}, {}, {}});
  }
  std::optional<Tokenizer> tokenizer = load_tokenizer(tokenizer_);
  PromptTokens tokens;
  tokens.tokenizer = tokenizer ? &*tokenizer : nullptr;
  // Without a tokenizer ids are below 256, which every vocabulary has.
  constexpr int64_t kSurelyKnown = 256;
  tokens.vocab_size = vocab_size_ > 0 ? vocab_size_ : tokenizer ? tokenizer->vocab_size() : kSurelyKnown;
  if (!compiled_ && client.style.model.empty()) client.style.model = ask_model(client.server, client.api_key);

  ServeReport report;
  report.server =
      fmt::format("http://{}:{}{}{}", client.server.host, client.server.port, client.server.prefix, endpoint_);
  report.model = client.style.model;
  report.dataset = dataset.name;
  report.goodput = goodput.wanted();
  RunRecord run = new_run("e2e", common, machine_info());
  run.name = "e2e serve " + client.style.model;
  run.mode = "serve";
  run.params["model"] = client.style.model;
  run.params["server"] = report.server;
  run.params["dataset"] = dataset.name;
  run.params["num_prompts"] = std::to_string(dataset.num_prompts);
  if (compiled_) run.params["path"] = "eager,compiled";
  Recorder recorder(recorder_options(record_, results_path("e2e_serve", ".jsonl"), false), warn_on_stderr);
  recorder.start(named(std::move(run), record_));
  auto requests_of = [&](uint64_t seed) {
    dataset.seed = seed;
    return make_requests(dataset, tokens);
  };
  auto arrivals_of = [&](const ServeLoad& load, size_t requests, uint64_t seed) {
    return arrival_times({load.request_rate, burstiness_, ramp_up_, start_rps_, end_rps_, seed},
                         static_cast<int64_t>(requests));
  };
  try {
    Progress progress(common);
    if (compiled_) {
      ServeSidesRequest sides;
      sides.client = client;
      sides.serve_flags = split_flags(serve_flags_);
      sides.search_flags = search_.arguments();
      sides.rounds = rounds_;
      sides.repeats = repeats_;
      sides.load = loads.front();
      sides.goodput = goodput;
      sides.requests = requests_of;
      sides.arrivals = [&](size_t requests, uint64_t seed) { return arrivals_of(loads.front(), requests, seed); };
      Json json = compare_servers(sides, common, progress);
      record_compared_servers(recorder, json);
      recorder.end("finished");
      if (!output_json_.empty()) write_report(output_json_, json);
      return print_compared_servers(json, common);
    }
    std::optional<ServerCounts> counts = ask_server_counts(client.server, client.api_key);
    for (size_t i = 0; i < loads.size(); ++i) {
      ServeLoad& load = loads[i];
      // Other prompts for every load: the server may have kept those of the last.
      std::vector<BenchRequest> requests = requests_of(common.seed + i);
      std::vector<double> arrivals = arrivals_of(load, requests.size(), common.seed + i);
      client.max_concurrency = load.max_concurrency;
      client.progress = [&](int64_t ended) {
        progress.show(fmt::format("load {} of {}: {} of {} requests", i + 1, loads.size(), ended, requests.size()));
      };
      load.measured = send_load(client, requests, arrivals);
      // A server that has no such numbers is asked once.
      std::optional<ServerCounts> before = counts;
      if (before) counts = ask_server_counts(client.server, client.api_key);
      if (before && counts) {
        load.server.drafts = counts->drafts - before->drafts;
        load.server.draft_tokens = counts->draft_tokens - before->draft_tokens;
        load.server.accepted_tokens = counts->accepted_tokens - before->accepted_tokens;
        load.server.steps = counts->steps - before->steps;
        load.server.compiled_steps = counts->compiled_steps - before->compiled_steps;
      }
      load.metrics = serving_metrics(load.measured.requests, load.measured.duration_s, goodput);
      if (load.metrics.completed == 0)
        throw Error("None of the {} requests succeeded: {}", requests.size(),
                    sentence_end(load.metrics.failures.begin()->first));
      report.loads.push_back(load);
    }
  } catch (const std::exception& e) {
    recorder.end("failed", e.what());
    throw;
  }
  record_serve(recorder, report);
  recorder.end("finished");
  if (!output_json_.empty()) write_report(output_json_, serve_json(report));
  print_serve(report, common);
  fail_where_requests_failed(report);
}

void E2eServe::check_compiled_flags() const {
  if (!compiled_) {
    search_.refuse_without_plans();
    for (const char* flag : {"--serve-flags", "--rounds", "--repeats"})
      if (flags_->find(flag)->given()) throw UsageError("{} is about servers with plans; give --compiled too", flag);
    return;
  }
  for (const char* flag : {"--base-url", "--host", "--port"})
    if (flags_->find(flag)->given())
      throw UsageError("--compiled starts its servers itself; leave {} out, and name the model with --model", flag);
  if (model_.empty()) throw UsageError("--compiled starts servers of a model; name it with --model");
  if (rates_.size() > 1 || concurrency_.size() > 1)
    throw UsageError("--compiled compares one load; give one --request-rate and one --max-concurrency");
}

}  // namespace fk
