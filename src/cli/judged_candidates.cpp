#include "cli/judged_candidates.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "cli/record_options.h"
#include "core/error.h"
#include "track/store.h"

namespace fk {
namespace {

bool same_kind(const std::string& device, DeviceKind kind) { return (device == "cpu") == (kind == DeviceKind::kCpu); }

void look_up(StoreReader& store, const BuiltCandidate& built, CandidateRecord& record) {
  std::set<std::string> seen;
  RunQuery all;
  all.limit = -1;
  for (const OperatorRecord& of_run : store.operator_history(record.op, all)) {
    if (of_run.candidate != record.identity || !same_kind(of_run.device, built.file.device())) continue;
    // A repeated single call is not a full judgement.
    std::optional<RunRecord> run = store.run(of_run.run_id);
    bool repeated = run && run->mode == "repro";
    if (!repeated && !record.speedup) record.speedup = of_run.speedup;
    for (const KernelRecord& result : store.kernel_results(of_run.run_id, record.op)) {
      if (result.skipped() || (repeated && result.passed()) || !seen.insert(result.scenario).second) continue;
      if (record.judged == "never") record.judged = "passed";
      if (result.passed() || record.judged == "failed") continue;
      record.judged = "failed";
      record.verdict = result.verdict;
      record.scenario = result.scenario;
      record.run_id = of_run.run_id;
    }
  }
}

}  // namespace

std::vector<CandidateRecord> look_up_candidates(const std::vector<BuiltCandidate>& built, const std::string& db) {
  std::vector<CandidateRecord> records;
  for (const BuiltCandidate& b : built) {
    CandidateRecord record;
    record.op = b.file.op->name;
    record.identity = b.identity();
    records.push_back(std::move(record));
  }
  std::string path = db.empty() ? default_store_path() : db;
  std::error_code error;
  if (records.empty() || !store_unavailable().empty() || !std::filesystem::exists(path, error)) return records;
  try {
    std::unique_ptr<StoreReader> store = open_store_reader(path);
    for (size_t i = 0; i < records.size(); ++i) look_up(*store, built[i], records[i]);
  } catch (const Error& e) {
    warn_on_stderr(fmt::format("Whether the candidates were judged cannot be read: {}", e.what()));
  }
  return records;
}

void check_judged(const std::vector<CandidateRecord>& records, bool allow_incorrect) {
  for (const CandidateRecord& r : records)
    if (r.judged == "failed" && !allow_incorrect)
      throw Error(
          "The candidate for {} was judged {} in {} (run {}); fix it, run without candidates (--no-candidate-kernels), "
          "or use it anyway (--allow-incorrect).",
          r.op, r.verdict, r.scenario, r.run_id);
  for (const CandidateRecord& r : records) {
    if (r.judged == "failed")
      warn_on_stderr(
          fmt::format("The candidate for {} was judged {} in {}; what the model computes with it may be wrong.", r.op,
                      r.verdict, r.scenario));
    if (r.judged == "never")
      warn_on_stderr(
          fmt::format("The candidate for {} was never judged and may be wrong; `fastkernels kernels --target {}` "
                      "judges it and, unlike "
                      "--check, stores the verdict.",
                      r.op, r.op));
  }
}

std::string judged_at_worst(const std::vector<CandidateRecord>& records) {
  std::string worst;
  for (const CandidateRecord& r : records)
    if (worst.empty() || r.judged == "failed" || (r.judged == "never" && worst == "passed")) worst = r.judged;
  return worst;
}

std::string describe_judged(const std::vector<CandidateRecord>& records) {
  std::string text;
  for (const CandidateRecord& r : records) {
    if (r.judged == "passed") continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", r.op,
                        r.judged == "never" ? "never judged" : "judged " + r.verdict);
  }
  return text;
}

}  // namespace fk
