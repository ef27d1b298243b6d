#include "cli/suite_row.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "candidate/folder.h"
#include "cli/suite_peer.h"
#include "cli/ttft_compare.h"
#include "core/error.h"
#include "core/temporary_folder.h"
#include "measure/statistics.h"
#include "models/resolve.h"

namespace fk {
namespace {

bool is_peer(const SuiteRow& row) { return row.path == kPathHf || row.path == kPathTorchCompile; }

std::vector<std::string> own_arguments(const SuiteRow& row, const SuiteSetting& setting, uint64_t search_seed,
                                       const std::string& search_cache) {
  const SuiteConfig& c = *row.config;
  std::vector<std::string> arguments = {"ttft", "--json", "--quiet", "--no-history", "--no-floors"};
  auto add = [&](const char* flag, const auto& value) { arguments.push_back(fmt::format("{}={}", flag, value)); };
  add("--row-of", getpid());
  add("--path", row.path);
  add("--model", c.model);
  add("--load-format", c.load_format);
  add("--dtype", c.dtype);
  add("--weight-seed", c.weight_seed);
  if (!c.quantization.empty()) add("--quantization", c.quantization);
  add("--device", device_name(setting.device_of(c)));
  add("--threads", setting.threads_of(c));
  add("--seed", setting.common.seed);
  if (c.prompt_ids.empty()) add("--prompt-tokens", c.prompt_tokens);
  for (int64_t id : c.prompt_ids) add("--prompt-ids", id);
  add("--decode-tokens", c.decode_tokens);
  add("--batch-size", c.batch_size);
  add("--iters", c.iterations);
  add("--warmups", c.warmups);
  if (!c.sequential) arguments.emplace_back("--no-sequential");
  if (!setting.db.empty()) add("--db", setting.db);
  if (row.path == kPathEager) return arguments;
  if (setting.judged.empty()) {
    arguments.emplace_back("--no-candidate-kernels");
  } else {
    arguments.emplace_back("--allow-incorrect");  // the row's note says what was judged
    if (!setting.candidates.cxxflags.empty()) add("--cxxflags", setting.candidates.cxxflags);
    if (setting.candidates.allow_libraries) arguments.emplace_back("--allow-libraries");
  }
  if (row.path != kPathCompiled) return arguments;
  if (!c.generated_kernels) {
    arguments.emplace_back("--no-generated-kernels");
  } else {
    if (row.budget) add("--search-budget", *row.budget);
    add("--search-seed", search_seed);
    if (!search_cache.empty()) add("--search-cache", search_cache);
  }
  return arguments;
}

// By its name where it still has that; it is the same program even where another has taken its place meanwhile.
std::string own_program() {
  constexpr const char* kSelf = "/proc/self/exe";
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink(kSelf, error);
  return !error && std::filesystem::exists(path, error) ? path.string() : kSelf;
}

TtftRecord empty_record(const SuiteRow& row, const SuiteSetting& setting) {
  const SuiteConfig& c = *row.config;
  TtftRecord t;
  t.path = row.path;
  t.model = t.model_key = c.model;
  t.config = c.name;
  t.device = device_name(setting.device_of(c));
  t.dtype = c.dtype;
  t.threads = setting.threads_of(c);
  t.prompt_tokens = c.prompt_tokens;
  t.decode_tokens = c.decode_tokens;
  t.iters = c.iterations;
  t.search_iters = row.budget;
  return t;
}

// What one process printed, as our own program does.
struct Printed {
  std::vector<double> prefill, decode, sequential;
  Json json;
};

Printed printed_times(const std::string& out) {
  const size_t begin = out.find("{\n"), end = out.rfind("\n}\n");
  if (begin == out.npos || end == out.npos || end < begin) throw Error("it printed no result");
  Printed p{{}, {}, {}, parse_json(out.substr(begin, end + 2 - begin), "what a row printed")};
  auto take = [&](const char* key, std::vector<double>& to) {
    if (!p.json.at("samples").contains(key)) return;
    to = p.json.at("samples").at(key).at("samples_ms").get<std::vector<double>>();
    constexpr double kMost = 1e12;  // ms, decades
    if (!std::all_of(to.begin(), to.end(), [&](double ms) { return ms > 0 && ms < kMost; }))
      throw Error("it printed a time that cannot be");
  };
  take("prefill", p.prefill);
  take("decode", p.decode);
  take("sequential", p.sequential);
  if (p.prefill.empty()) throw Error("it printed no times");
  return p;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> maybe_number(const Json& json, const char* key) {
  auto found = json.find(key);
  return found == json.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

std::optional<int64_t> maybe_bytes(const Json& json, const char* key) {
  const std::optional<double> value = maybe_number(json, key);
  return value && *value >= 0 && *value < 0x1p62 ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}

// Fills the record from the processes of a row: one, or one for each seed of the search.
void fill_record(TtftRecord& t, const SuiteConfig& config, const std::vector<Printed>& all) {
  auto joined = [&](std::vector<double> Printed::*times) {
    std::vector<double> values;
    for (const Printed& p : all) values.insert(values.end(), (p.*times).begin(), (p.*times).end());
    return values;
  };
  const std::vector<double> prefill = joined(&Printed::prefill), decode = joined(&Printed::decode),
                            sequential = joined(&Printed::sequential);
  const Json& json = all.front().json;
  const Json row = json.contains("results") ? json.at("results").at(0) : json;
  if (row.contains("dtype") && row.at("dtype").is_string()) t.dtype = row.at("dtype").get<std::string>();
  t.iters = static_cast<int64_t>(prefill.size());
  t.ttft_ms = median(prefill);
  t.ttft_ms_mean = mean_of(prefill);
  t.samples = {{"prefill", prefill}};
  const auto batch = static_cast<double>(config.batch_size);
  t.throughput_tps = batch * static_cast<double>(t.prompt_tokens) * 1e3 / *t.ttft_ms;
  if (!decode.empty()) {
    t.tpot_ms = median(decode);
    t.throughput_tps = batch * 1e3 / *t.tpot_ms;
    t.samples["decode"] = decode;
  } else {
    t.decode_tokens = 0;
  }
  if (!sequential.empty()) {
    t.ttft_sequential_ms = median(sequential);
    t.samples["sequential"] = sequential;
  }
  t.load_ms = maybe_number(row, "load_ms");
  t.weights_bytes = maybe_bytes(row, "weights_bytes");
  t.peak_memory_bytes = maybe_bytes(row, "peak_memory_bytes");
  if (json.contains("note")) t.note = json.at("note").get<std::string>();
  if (json.contains("plan")) set_search(t, json.at("plan"));
}

// How far the seeds of a search are apart.
void add_seeds(TtftRecord& t, const std::vector<Printed>& all, uint64_t first_seed) {
  Json list = Json::array();
  std::vector<double> ttft, tpot, search;
  std::set<std::string> plans;
  for (size_t i = 0; i < all.size(); ++i) {
    ttft.push_back(median(all[i].prefill));
    Json one = {{"seed", first_seed + i}, {"ttft_ms", ttft.back()}};
    if (!all[i].decode.empty()) one["tpot_ms"] = tpot.emplace_back(median(all[i].decode));
    if (all[i].json.contains("plan")) {
      one["search_ms"] = search.emplace_back(all[i].json.at("plan").at("plan_ms").get<double>());
      if (all[i].json.at("plan").contains("fingerprint"))
        plans.insert(one["plan"] = all[i].json.at("plan").at("fingerprint"));
    }
    list.push_back(std::move(one));
  }
  auto spread = [](const std::vector<double>& values) {
    auto [low, high] = std::minmax_element(values.begin(), values.end());
    return (*high - *low) / median(values);
  };
  t.details["seeds"] = list;
  t.details["spread"]["ttft"] = spread(ttft);
  if (!tpot.empty()) t.details["spread"]["tpot"] = spread(tpot);
  if (!search.empty()) t.compile_ms = median(search);
  if (auto phases = t.details.find("phases"); phases != t.details.end())
    for (auto& [phase, time] : phases->items()) {
      std::vector<double> times;
      for (const Printed& p : all) times.push_back(p.json.at("plan").at(phase).get<double>());
      time = median(times);
    }
  // With one plan, all of the spread is the machine's.
  t.details["spread"]["plans"] = plans.size();
  t.note = fmt::format("{} seeds found {}{}{}", all.size(),
                       plans.size() == 1 ? std::string("the same plan") : fmt::format("{} plans", plans.size()),
                       t.note.empty() ? "" : "; ", t.note);
}

// The row that its processes printed. Throws where that is none: --python may name any program.
SuiteResult read_row(SuiteResult result, const SuiteSetting& setting, bool seeds, const std::vector<Printed>& all) {
  fill_record(result.record, *result.row.config, all);
  if (seeds) add_seeds(result.record, all, setting.common.seed);
  if (result.row.path == kPathCandidate || result.row.path == kPathCompiled) {
    if (const std::string doubt = describe_judged(setting.judged); !doubt.empty())
      result.record.note += (result.record.note.empty() ? "" : "; ") + doubt;
  }
  const Json& printed = all.front().json;
  if (printed.contains("outputs")) result.outputs = outputs_from_json(printed.at("outputs"));
  for (size_t i = 1; i < all.size() && result.outputs; ++i)
    result.of_other_seeds.push_back(outputs_from_json(all[i].json.at("outputs")));
  if (printed.contains("same_weights") && !printed.at("same_weights").get<bool>())
    result.not_comparable = "its weights are others";
  return result;
}

}  // namespace

Device SuiteSetting::device_of(const SuiteConfig& config) const {
  return config.device.empty() || device_given ? common.device : parse_device(config.device);
}
int SuiteSetting::threads_of(const SuiteConfig& config) const {
  return config.threads == 0 || threads_given ? common.threads : static_cast<int>(config.threads);
}

std::string SuiteResult::label_of(const SuiteRow& row) {
  return row.budget ? fmt::format("{} {}", row.path, *row.budget) : row.path;
}

void set_search(TtftRecord& record, const Json& plan) {
  record.compile_ms = plan.at("plan_ms").get<double>();
  for (const char* phase : {"find_ms", "compile_ms", "trial_ms", "capture_ms"})
    if (plan.contains(phase)) record.details["phases"][phase] = plan.at(phase).get<double>();
  for (const char* key : {"kernels_measured", "fingerprint", "text"})
    if (plan.contains(key)) record.details["plan"][key] = plan.at(key);
  // It is then no more than the calls of the tree, in a plan.
  if (plan.contains("no_kernels"))
    record.note += fmt::format("{}no generated kernels: {}", record.note.empty() ? "" : "; ",
                               plan.at("no_kernels").get<std::string>());
}

SuiteResult skipped_row(const SuiteRow& row, const SuiteSetting& setting, const std::string& why) {
  SuiteResult result{.row = row, .record = empty_record(row, setting), .skipped = true};
  result.record.note = "skipped: " + why;
  return result;
}

SuiteResult run_row(const SuiteRow& row, const SuiteSetting& setting,
                    const std::function<void(const std::string&)>& show, const std::function<void()>& sample) {
  if (row.path == kPathCandidate && setting.judged.empty())
    return skipped_row(row, setting, no_candidates_sentence(candidate_folder(), setting.device_of(*row.config).kind));
  SuiteResult result{.row = row, .record = empty_record(row, setting)};
  const bool seeds = row.path == kPathCompiled && setting.seeds > 1;
  std::vector<Printed> all;
  ProcessEnd end;
  try {
    if (is_peer(row))
      if (const std::string why = peer_refusal(*row.config); !why.empty()) return skipped_row(row, setting, why);
    for (int64_t i = 0; i < (seeds ? setting.seeds : 1); ++i) {
      TemporaryFolder folder;
      WatchedProcess process;
      if (is_peer(row))
        process = peer_process(row, setting, folder.path());
      else
        process = {.program = own_program(),
                   .arguments = own_arguments(row, setting, setting.common.seed + static_cast<uint64_t>(i),
                                              row.config->warm_search ? "" : folder.path())};
      process.limit_seconds = row.config->limit_seconds;
      process.on_stage = show;
      process.on_poll = sample;
      end = run_watched(process);
      if (!end.good()) break;
      all.push_back(printed_times(end.out));
    }
    if (end.good()) return read_row(result, setting, seeds, all);
    if (is_peer(row) && end.exit_code == kPeerNotInstalled) {
      const std::string why = end.last_words();
      return skipped_row(row, setting,
                         fmt::format("{}; install them, or name a Python with --python or FASTKERNELS_PYTHON",
                                     why.empty() ? setting.python + " has no PyTorch with transformers" : why));
    }
    result.record.error = end.sentence();
  } catch (const NotStarted& e) {
    if (is_peer(row))
      return skipped_row(row, setting, fmt::format("{} Name a Python with --python or FASTKERNELS_PYTHON", e.what()));
    result.record.error = e.what();
  } catch (const Error& e) {  // there is no such model, or it printed no result
    result.record.error = e.what();
  } catch (const std::exception& e) {  // a part is missing, or of another type
    result.record.error = fmt::format("what it printed is no result ({})", e.what());
  }
  result.out_of_memory = end.out_of_memory;
  result.record.peak_memory_bytes = static_cast<int64_t>(end.peak_memory_bytes);
  result.record.details["failure"] = end.to_json();
  return result;
}

void compare_with(SuiteResult& result, const SuiteResult& reference) {
  if (!result.outputs || !reference.outputs) return;
  Json& stored = result.record.details["outputs"];
  stored["reference"] = reference.label();
  if (!result.not_comparable.empty()) {
    stored["text"] = "not compared: " + result.not_comparable;
    return;
  }
  OutputComparison worst = compare_outputs(*reference.outputs, *result.outputs);
  for (const TtftOutputs& other : result.of_other_seeds) {
    const OutputComparison c = compare_outputs(*reference.outputs, other);
    const bool worse = c.equal() == worst.equal() ? c.largest_difference > worst.largest_difference : worst.equal();
    if (worse) worst = c;
  }
  stored.update(to_json(worst, reference.label(), result.label()));
}

}  // namespace fk
