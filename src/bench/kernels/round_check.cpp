#include "bench/kernels/round_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/kernels/turns.h"

namespace fk {
namespace {

constexpr size_t kRemembered = 4;              // earlier calls
constexpr int64_t kLookAt = int64_t{1} << 15;  // elements checked per side and round

}  // namespace

RoundCheck::RoundCheck(const OperatorInfo& op, const Node& root, const Workload& workload, Judge& judge,
                       FreshInputs& inputs, uint64_t seed)
    : outputs_(op, root, workload, judge), inputs_(inputs), random_(seed, "round check") {}

// About twice a launch, judged rounds always, less often where the oracle is slow; the first round always.
bool RoundCheck::to_oracle(bool judged_round) const {
  if (!outputs_.oracle_affordable()) return false;
  if (outputs_.judged() == 0) return true;
  if (judged_round && !outputs_.oracle_is_quick()) return false;
  const double often = judged_round ? 1 : 1.0 / 8, seconds_per_round = judged_round ? 0.01 : 1e-3;
  double share = std::min(often, seconds_per_round / outputs_.oracle_seconds());
  return static_cast<double>(secret_number() >> 11) * 0x1p-53 < share;
}

// In judged rounds mostly the one whose inputs are of a family that is never timed.
size_t RoundCheck::drawn_call(std::span<const int> calls) const {
  const auto untimed = std::find(calls.begin(), calls.end(), untimed_.value_or(-1));
  if (untimed == calls.end() || secret_number() % 8 == 0) return secret_number() % calls.size();
  return static_cast<size_t>(untimed - calls.begin());
}

// Checks outputs of all calls at positions chosen after they returned, and in some rounds a whole call with the oracle.
// Every side is read equally often, in random order: a side whose outputs stay in the caches longer would be timed
// differently. A difference between baseline and control means that the task is invalid.
std::optional<Failure> RoundCheck::check(const RoundOutputs& round) {
  constexpr int kBaseline = LaunchSides::kBaseline, kCandidate = LaunchSides::kCandidate,
                kControl = LaunchSides::kControl;
  struct Look {
    int side, against;
  };
  std::vector<Look> looks = {{kCandidate, kBaseline}, {kControl, kBaseline}, {kCandidate, kControl}};
  const bool on_cpu = round.memory.device() == kCpu;
  if (!on_cpu) looks.resize(1);  // a GPU's caches do not depend on what was read between samples
  for (size_t i = looks.size() - 1; i > 0; --i) std::swap(looks[i], looks[random_.below(draws_++, i + 1)]);
  const std::span<const int> calls = round.calls;
  auto budget = std::max<int64_t>(kLookAt / static_cast<int64_t>(calls.size()), 64);
  auto of_task = [](const Failure& found) {
    return Failure{Verdict::kInvalidTask, fmt::format("The baseline differs from itself: {}", found.sentence)};
  };
  size_t judged = to_oracle(round.judged) ? drawn_call(calls) : calls.size();
  if (judged < calls.size()) {
    std::vector<int> sides = {round.writers[kCandidate]};
    if (on_cpu) sides.insert(sides.begin() + secret_number() % 2, round.writers[kControl]);
    std::optional<OutputCheck::Found> found =
        outputs_.judge(round.memory, calls[judged], inputs_.current(calls[judged]), round.writers[kBaseline], sides,
                       /*calibrate=*/!round.judged);
    if (found) return found->writer == round.writers[kCandidate] ? found->failure : of_task(found->failure);
  }
  auto data_of = [&](int slot) -> const CallData& { return inputs_.current(slot); };
  if (std::optional<Failure> found = check_margins(round)) return found;
  for (const Look& look : looks) {
    OutputCheck::Sides sides{round.writers[static_cast<size_t>(look.side)],
                             round.writers[static_cast<size_t>(look.against)]};
    uint64_t secret = secret_number();
    std::optional<Failure> found;
    for (size_t i = 0; i < calls.size() && !found; ++i)
      if (i != judged)
        found = outputs_.look(round.memory, calls[i], data_of, inputs_.base(), sides, secret + i, budget);
    if (found) return look.side == kControl ? of_task(*found) : *found;
  }
  return check_repeats(round);
}

void RoundCheck::prepare(std::span<const int> calls, bool judged_round) {
  repeated_.clear();
  untimed_.reset();
  if (calls.empty()) return;
  size_t at = secret_number() % calls.size(), free = calls.size();
  auto next_call = [&] { return --free, calls[at++ % calls.size()]; };
  if (judged_round && outputs_.oracle_is_quick() && (free > 1 || earlier_.empty() || secret_number() % 2 == 0)) {
    untimed_ = next_call();
    inputs_.next(*untimed_, /*timed=*/false);
  }
  if (!judged_round && secret_number() % 8 != 0) return;
  for (size_t i = 0; i < earlier_.size() && free > 0; ++i) {
    repeated_.push_back(next_call());
    inputs_.repeat(repeated_.back(), earlier_[i].inputs);
  }
}

std::vector<int> RoundCheck::sides_to_read(const CallMemory& memory) {
  if (memory.device() != kCpu) return {LaunchSides::kCandidate};
  const std::array<int, LaunchSides::kTimed> order = shuffled<LaunchSides::kTimed>(random_, draws_);
  return {order.begin(), order.end()};
}

std::optional<Failure> RoundCheck::check_margins(const RoundOutputs& round) {
  for (int side : sides_to_read(round.memory)) {
    std::optional<Failure> found =
        round.memory.check_margins(round.calls, round.writers[static_cast<size_t>(side)], round.pattern);
    if (!found) continue;
    if (side == LaunchSides::kCandidate) return found;
    return Failure{Verdict::kInvalidTask, fmt::format("The baseline failed: {}", found->sentence)};
  }
  return std::nullopt;
}

std::vector<uint64_t> RoundCheck::written_by_candidate(const RoundOutputs& round, int slot) {
  std::vector<uint64_t> written;
  for (int side : sides_to_read(round.memory)) {
    std::vector<uint64_t> prints =
        round.memory.fingerprints(std::span(&slot, 1), round.writers[static_cast<size_t>(side)]);
    if (side == LaunchSides::kCandidate) written = std::move(prints);
  }
  return written;
}

// Equal inputs must give equal bits. Which calls are remembered for later rounds is drawn after they have returned.
std::optional<Failure> RoundCheck::check_repeats(const RoundOutputs& round) {
  for (size_t i = 0; i < repeated_.size(); ++i)
    if (written_by_candidate(round, repeated_[i]) != earlier_[i].written)
      return Failure{Verdict::kNondeterministic,
                     "Two calls with the same data, made while it was timed, differ in the bits they wrote."};
  if (earlier_.size() == kRemembered && secret_number() % 4 != 0) return std::nullopt;
  const int slot = round.calls[secret_number() % round.calls.size()];
  // Remembered twice, it would be repeated twice in one round.
  if (std::find(repeated_.begin(), repeated_.end(), slot) != repeated_.end()) return std::nullopt;
  if (earlier_.size() == kRemembered) earlier_.erase(earlier_.begin());
  earlier_.push_back({inputs_.choice(slot), written_by_candidate(round, slot)});
  return std::nullopt;
}

}  // namespace fk
