#include "candidate/swap.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "candidate/load.h"
#include "core/error.h"

namespace fk {
namespace {

bool has_candidate(const OperatorInfo& op) {
  return std::any_of(op.implementations.begin(), op.implementations.end(),
                     [](const ImplementationInfo& i) { return i.foreign != nullptr; });
}

bool runs_candidate(const Node& node) {
  std::vector<const ImplementationInfo*> ranked = node.implementations();
  return !ranked.empty() && ranked[0]->foreign != nullptr;
}

// `outer`: the outermost node above this one whose candidate replaces everything below it.
void count_uses(const Node& node, const Node* outer, std::vector<CandidateUse>& uses) {
  if (runs_candidate(node)) {
    auto use = std::find_if(uses.begin(), uses.end(), [&](const CandidateUse& u) { return u.op == node.info().name; });
    if (outer == nullptr) {
      ++use->active;
      outer = &node;
    } else {
      auto hidden = std::find_if(use->hidden.begin(), use->hidden.end(),
                                 [&](const CandidateUse::Hidden& h) { return h.by == outer->info().name; });
      if (hidden == use->hidden.end())
        use->hidden.push_back({std::string(outer->info().name), 1});
      else
        ++hidden->places;
    }
  }
  if (outer == nullptr && has_candidate(node.info()))  // but it does not run here
    ++std::find_if(uses.begin(), uses.end(), [&](const CandidateUse& u) {
        return u.op == node.info().name;
      })->between_ranks;
  for (const Node* child : node.children()) count_uses(*child, outer, uses);
}

std::string places(int64_t n) { return fmt::format("{} place{}", n, n == 1 ? "" : "s"); }

}  // namespace

std::string BuiltCandidate::identity() const { return std::filesystem::path(compiled.so_path).stem().string(); }

std::vector<BuiltCandidate> build_candidates(const std::vector<CandidateFile>& files, const CompileOptions& options) {
  std::vector<BuiltCandidate> built;
  for (const CandidateFile& file : files) {
    built.push_back({file, compile_candidate(file, options)});
    if (const auto& failure = built.back().compiled.failure) throw Error(failure->sentence);
  }
  return built;
}

void swap_in(const std::vector<BuiltCandidate>& built) {
  for (const auto& [file, compiled] : built)
    Registry::instance().add_foreign(file.op->name, kCandidateName, file.device(),
                                     load_candidate(compiled.so_path, *file.op));
}

void swap_in(const std::vector<CandidateFile>& files, const CompileOptions& options) {
  swap_in(build_candidates(files, options));
}

std::vector<CandidateUse> candidate_uses(const Node& root) {
  std::vector<CandidateUse> uses;
  for (const OperatorInfo* op : Registry::instance().operators())
    if (has_candidate(*op)) uses.push_back({.op = std::string(op->name)});
  if (!uses.empty()) count_uses(root, nullptr, uses);
  return uses;
}

std::string describe_uses(const std::vector<CandidateUse>& uses) {
  std::string active, hidden;
  for (const CandidateUse& use : uses) {
    std::string where = use.active > 0          ? " in " + places(use.active)
                        : use.between_ranks > 0 ? ""
                        : use.hidden.empty()    ? " (not in this model)"
                                                : "";
    if (use.between_ranks > 0)
      where += fmt::format(" (not in {} where ranks add up their parts)", places(use.between_ranks));
    if (use.active > 0 || use.between_ranks > 0 || use.hidden.empty())
      active += fmt::format("{}{}{}", active.empty() ? "" : ", ", use.op, where);
    for (const CandidateUse::Hidden& h : use.hidden)
      hidden += fmt::format("; {} hides {} in {}", h.by, use.op, places(h.places));
  }
  return uses.empty() ? "" : "candidates: " + active + hidden;
}

}  // namespace fk
