#include "cli/candidate_options.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/ranks.h"

namespace fk {

void add_cxxflags(FlagSet& flags, std::string& cxxflags, const std::string& help) {
  auto complaint = [](const std::string& text) {
    return quotes_closed(text) ? "" : fmt::format("{} opens a quote that it does not close", text);
  };
  flags.option("--cxxflags", cxxflags, help).check(complaint).type_name("FLAGS");
}

void add_candidate_options(FlagSet& flags, CandidateOptions& options) {
  flags.flag("--no-candidate-kernels", options.disabled, "Run the baselines, whatever candidates there are");
  add_cxxflags(flags, options.cxxflags, "More flags to compile candidates with");
  flags.flag("--allow-libraries", options.allow_libraries, "Link CUDA candidates with cuBLAS and cuBLASLt");
  flags.flag("--allow-incorrect", options.allow_incorrect, "Use candidates that `kernels` judged wrong, too");
}

namespace {

struct Checked {
  std::vector<BuiltCandidate> built;
  std::vector<CandidateRecord> records;
};

Checked build_and_check(const CandidateOptions& options, const CommonOptions& common, const std::string& db) {
  Checked checked;
  if (options.disabled) return checked;
  std::vector<CandidateFile> files = find_candidates(candidate_folder(), common.device.kind);
  if (files.empty()) return checked;
  {
    Progress progress(common);
    progress.show("compiling candidates");
    checked.built = build_candidates(
        files, {.cxxflags = split_flags(options.cxxflags), .allow_libraries = options.allow_libraries});
  }
  checked.records = look_up_candidates(checked.built, db);
  check_judged(checked.records, options.allow_incorrect);
  return checked;
}

}  // namespace

std::vector<CandidateRecord> activate_candidates(const CandidateOptions& options, const CommonOptions& common,
                                                 const std::string& db) {
  Checked checked = build_and_check(options, common, db);
  swap_in(checked.built);
  return checked.records;
}

std::vector<CandidateRecord> candidate_records(const CandidateOptions& options, const CommonOptions& common,
                                               const std::string& db) {
  return build_and_check(options, common, db).records;
}

Json to_json(const std::vector<DispatchCount>& dispatches) {
  Json list = Json::array();
  for (const DispatchCount& d : dispatches)
    list.push_back(
        {{"operator", d.op}, {"implementation", d.implementation}, {"rows_up_to", d.rows_up_to}, {"calls", d.calls}});
  return list;
}

Json gathered_dispatches(Ranks& ranks, const std::vector<DispatchCount>& dispatches) {
  Json own = to_json(dispatches), json = {{"dispatches", own}};
  if (ranks.communicator() == nullptr) return json;
  for (const std::string& of_rank : ranks.gather(own.dump()))
    json["ranks"].push_back({{"dispatches", parse_json(of_rank, "what a rank counted")}});
  return json;
}

Json to_json(const std::vector<CandidateUse>& uses, const std::vector<CandidateRecord>& records) {
  Json list = Json::array();
  for (const CandidateUse& use : uses) {
    Json hidden = Json::array();
    for (const CandidateUse::Hidden& h : use.hidden) hidden.push_back({{"by", h.by}, {"places", h.places}});
    list.push_back({{"operator", use.op}, {"active_places", use.active}, {"hidden", hidden}});
    if (use.between_ranks > 0) list.back()["places_between_ranks"] = use.between_ranks;
    for (const CandidateRecord& r : records) {
      if (r.op != use.op) continue;
      list.back()["judged"] = r.judged;
      if (r.judged == "failed")
        list.back().update({{"verdict", r.verdict}, {"scenario", r.scenario}, {"judged_in_run", r.run_id}});
    }
  }
  return list;
}

}  // namespace fk
