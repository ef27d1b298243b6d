#include "sandbox/local_subject.h"

#include <fmt/format.h>

#include <cstring>

#include "candidate/load.h"
#include "sandbox/call_memory.h"

namespace fk {
namespace {

constexpr uint8_t kPoison = 0xFF;

std::optional<Failure> threw(const char* where, const std::exception& e) {
  return Failure{Verdict::kCrashed, fmt::format("It threw, {}: {}", where, e.what())};
}

}  // namespace

LocalSubject::LocalSubject(const OperatorInfo& op, const Fields& init, const std::string& library, int threads)
    : op_(op), root_(op.build(init, {})), candidate_(load_candidate(library, op)->create(init)), pool_(threads) {
  candidate_->name_states(collect_states(*root_));
}

std::optional<Failure> LocalSubject::bind(std::span<const Tensor> params) {
  params_.clear();
  std::vector<std::string> names;
  std::vector<View> views;
  for (const ParamSpec& p : collect_params(*root_)) names.push_back(p.name);
  for (const Tensor& p : params) params_.push_back(copy_of(p));
  for (const Tensor& p : params_) views.push_back(p);
  try {
    candidate_->bind(names, views);
  } catch (const std::exception& e) {
    return threw("in prepare", e);
  }
  return std::nullopt;
}

std::vector<OptView> LocalSubject::arguments(const CallData& data, CallOutcome& outcome) const {
  std::vector<OptView> args;
  for (size_t i = 0; i < data.given.size(); ++i) {
    outcome.written.emplace_back();
    if (data.given[i] && op_.args[i].role == Role::kState) outcome.written.back() = copy_of(*data.given[i]);
    if (outcome.written.back())
      args.emplace_back(outcome.written.back()->view());
    else
      args.push_back(data.given[i] ? OptView(data.given[i]->view()) : std::nullopt);
  }
  OutputSpecs outputs = root_->outputs(args);
  for (size_t i = 0; args.size() < op_.args.size(); ++i) {
    outcome.written.emplace_back();
    args.emplace_back();
    if (!outputs.specs[i]) continue;
    const View& out = outcome.written.back().emplace(*outputs.specs[i]).view();
    std::memset(out.data(), kPoison, out.size_bytes());
    args.back() = out;
  }
  outcome.poison = kPoison;
  return args;
}

std::optional<Failure> LocalSubject::refusal(const CallData& shapes) {
  CallOutcome unused;
  std::vector<OptView> args = arguments(shapes, unused);
  std::string_view why = candidate_->refuse(args);
  if (why.empty()) return std::nullopt;
  return Failure{Verdict::kRefused, fmt::format("The candidate refuses this call: {}.", why)};
}

CallOutcome LocalSubject::call(const CallData& data, Placement) {
  CallOutcome outcome;
  std::vector<OptView> args = arguments(data, outcome);
  if (std::string_view why = candidate_->refuse(args); !why.empty()) {
    outcome.failure = Failure{Verdict::kRefused, fmt::format("The candidate refuses this call: {}.", why)};
    return outcome;
  }
  for (const Tensor& state : data.states) outcome.states.push_back(copy_of(state));
  std::vector<View> states = state_views(outcome.states);
  arena_.reset();
  Context ctx{.pool = pool_,
              .arena = arena_,
              .attention = states.empty() ? nullptr : &data.batch->attention(),  // as in a runner
              .states = states};
  try {
    candidate_->forward(ctx, args);
  } catch (const std::exception& e) {
    outcome.failure = threw("in forward", e);
  }
  return outcome;
}

}  // namespace fk
