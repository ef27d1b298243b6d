#include "bench/kernels/output_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "core/device_judging.h"
#include "core/device_runtime.h"
#include "core/rng.h"
#include "validate/compare.h"

namespace fk {

// A tensor that a call writes, as written by two sides.
struct OutputCheck::Written {
  std::string name;
  bool is_state = false;
  View candidate, baseline;
  const Tensor* before = nullptr;  // of states
};

namespace {

constexpr int64_t kTile = 1024;  // elements

template <class T>
double largest_of(const T* values, int64_t n) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    float a = std::abs(static_cast<float>(values[i]));
    if (a <= std::numeric_limits<float>::max()) largest = std::max(largest, a);
  }
  return static_cast<double>(largest);
}

// Equal numbers are always close, infinities too; NaN is close to nothing.
template <class T>
bool all_close(const T* got, const T* want, int64_t n, double relative, double absolute) {
  bool close = true;
  for (int64_t i = 0; i < n; ++i) {
    auto x = static_cast<float>(got[i]), y = static_cast<float>(want[i]);
    double error = std::abs(static_cast<double>(x) - static_cast<double>(y));
    close &= error <= absolute + relative * std::abs(static_cast<double>(y)) || x == y;
  }
  return close;
}

template <class Visit>
auto with_type(DType dtype, const void* data, Visit&& visit) {
  if (dtype == DType::kF32) return visit(static_cast<const float*>(data));
  if (dtype == DType::kBF16) return visit(static_cast<const bf16*>(data));
  if (dtype == DType::kF16) return visit(static_cast<const f16*>(data));
  if (dtype == DType::kF8E4M3) return visit(static_cast<const f8e4m3*>(data));
  FK_CHECK(dtype == DType::kF8E5M2, "a float dtype without a comparison");
  return visit(static_cast<const f8e5m2*>(data));
}

double largest_in(const View& v, int64_t from, int64_t n) {
  return with_type(v.dtype(), v.data(), [&](const auto* values) { return largest_of(values + from, n); });
}

}  // namespace

OutputCheck::OutputCheck(const OperatorInfo& op, const Node& root, const Workload& workload, Judge& judge)
    : op_(op),
      root_(root),
      workload_(workload),
      judge_(judge),
      oracle_seconds_(reference_seconds(op, root.init(), workload)) {}

std::vector<OutputCheck::Written> OutputCheck::written(const CallMemory& memory, int slot, const CallData& data,
                                                       Sides sides) const {
  std::vector<Written> all;
  std::vector<View> got = memory.written_tensors(slot, sides.candidate),
                    want = memory.written_tensors(slot, sides.baseline);
  std::vector<OptView> given;
  for (const auto& t : data.given) given.push_back(t ? OptView(t->view()) : std::nullopt);
  OutputSpecs outputs = root_.outputs(given);
  for (size_t i = 0; i < op_.args.size(); ++i) {
    if (op_.args[i].role == Role::kInput) continue;
    bool is_state = op_.args[i].role == Role::kState;
    if (is_state ? !data.given[i] : !outputs.specs[i - data.given.size()]) continue;
    size_t at = all.size();
    all.push_back(
        {fmt::format("'{}'", op_.args[i].name), is_state, got[at], want[at], is_state ? &*data.given[i] : nullptr});
  }
  for (size_t i = 0; i < data.states.size(); ++i) {
    size_t at = all.size();
    all.push_back({state_words(data.state_specs[i]), true, got[at], want[at], &data.states[i]});
  }
  return all;
}

Tolerance OutputCheck::tolerance_on(const CallData& data) const {
  std::vector<OptView> given;
  for (const auto& t : data.given) given.push_back(t ? OptView(t->view()) : std::nullopt);
  return op_.tolerance_on(root_.init(), workload_.dtype, given);
}

double OutputCheck::allowed(const std::string& name) const {
  const BaselineRatios& typical = typical_.empty() ? judge_.typical_errors() : typical_;
  auto known = typical.find(name);
  double ratio = known != typical.end() ? known->second : 1;
  return std::clamp(kBaselineFactor * ratio, kLeastShare, kContractFactor) +
         std::min(std::max(ratio, kLeastShare), 1.0);
}

// Whether this many consecutive elements are within the bound. `scale` is the largest of the whole tensor, or zero:
// then that of these elements, which is stricter.
bool OutputCheck::agree(const Written& w, int64_t from, int64_t count, const Tolerance& tolerance, double scale) const {
  size_t size = dtype_size(w.baseline.dtype()), at = static_cast<size_t>(from) * size;
  auto bytes = [&](const View& v) { return static_cast<const std::byte*>(v.data()) + at; };
  size_t n = static_cast<size_t>(count) * size;
  if (std::memcmp(bytes(w.candidate), bytes(w.baseline), n) == 0) return true;
  if (!dtype_is_float(w.baseline.dtype()) || w.baseline.dtype() == DType::kF64) return false;
  if (tolerance.relative == 0 && tolerance.of_scale == 0) return false;
  // The call must not change what the baseline leaves unchanged.
  if (w.before != nullptr && std::memcmp(bytes(w.baseline), bytes(w.before->view()), n) == 0) return false;
  double share = allowed(w.name), largest = scale > 0 ? scale : largest_in(w.baseline, from, count);
  double relative = share * tolerance.relative + dtype_epsilon(w.baseline.dtype());
  double absolute = share * tolerance.of_scale * largest + 2 * negligible_error(tolerance, w.baseline.dtype());
  return with_type(w.baseline.dtype(), w.baseline.data(), [&]<class T>(const T* want) {
    return all_close(static_cast<const T*>(w.candidate.data()) + from, want + from, count, relative, absolute);
  });
}

std::optional<Failure> OutputCheck::look(const CallMemory& memory, int slot, const DataOf& data_of,
                                         const CallData& shapes, Sides sides, uint64_t secret, int64_t budget) {
  const CallData& data = memory.device() == kCpu ? data_of(slot) : shapes;
  Tolerance tolerance = tolerance_on(data);
  if (op_.judge != nullptr) tolerance = {};
  std::deque<Tensor> dense;  // copies of states with gaps between rows, and of a GPU's tensors
  auto on_cpu = [&](View& v) {
    if (v.device() == kCpu && v.contiguous()) return;
    Tensor& copy = dense.emplace_back(v.spec());
    copy_between(v.contiguous() ? v : copy_of(v).view(), copy);
    v = copy;
  };
  Stream places(secret, "places to look at");
  uint64_t drawn = 0;
  for (Written& w : written(memory, slot, data, sides)) {
    int64_t n = w.baseline.numel();
    if (n == 0) continue;
    bool fine = true;
    if (memory.device() != kCpu && dtype_is_float(w.baseline.dtype()) && w.baseline.contiguous() &&
        dtype_size(w.baseline.dtype()) >= 2) {
      // The GPU compares all of it in its own memory.
      double share = allowed(w.name);
      Apart apart{share * tolerance.relative + dtype_epsilon(w.baseline.dtype()), share * tolerance.of_scale,
                  2 * negligible_error(tolerance, w.baseline.dtype())};
      fine = device_runtime(memory.device()).judging().count_apart(w.candidate, w.baseline, apart) == 0;
      elements_ += n;
    } else {
      on_cpu(w.candidate), on_cpu(w.baseline);
      // Only a small part of a state is written, but it may be any part; comparing bytes is fast.
      int64_t most = w.is_state ? 16 * budget : budget;
      if (n <= most) {
        for (int64_t from = 0; fine && from < n; from += kTile)
          fine = agree(w, from, std::min(kTile, n - from), tolerance, 0);
        elements_ += n;
      } else {
        for (int64_t looked = 0, tile = std::min(kTile, most); fine && looked < most; looked += tile) {
          auto from = static_cast<int64_t>(places.below(drawn++, static_cast<uint64_t>(n - tile + 1)));
          fine = agree(w, from, tile, tolerance, 0);
        }
        elements_ += most;
      }
    }
    if (fine) continue;
    on_cpu(w.candidate), on_cpu(w.baseline);
    w.before = nullptr;  // `data` has these shapes, but may belong to another call
    return final_word(memory, slot, data_of(slot), sides, w, tolerance);
  }
  return std::nullopt;
}

std::optional<Failure> OutputCheck::final_word(const CallMemory& memory, int slot, const CallData& data, Sides sides,
                                               const Written& suspect, const Tolerance& tolerance) {
  if (oracle_affordable()) {
    std::optional<Found> found = judge(memory, slot, data, sides.baseline, std::span(&sides.candidate, 1));
    return found ? std::optional(found->failure) : std::nullopt;
  }
  if (op_.judge != nullptr) return own_rule(memory, slot, data, sides);
  bool is_float = dtype_is_float(suspect.baseline.dtype());
  double scale = is_float ? largest_in(suspect.baseline, 0, suspect.baseline.numel()) : 0;
  for (int64_t from = 0, n = suspect.baseline.numel(); from < n; from += kTile) {
    int64_t count = std::min(kTile, n - from);
    if (agree(suspect, from, count, tolerance, scale)) continue;
    int64_t at = from;
    while (agree(suspect, at, 1, tolerance, scale) && at + 1 < from + count) ++at;
    auto value = [&](const View& v) {
      return load_element(static_cast<const std::byte*>(v.data()) + static_cast<size_t>(at) * dtype_size(v.dtype()),
                          v.dtype());
    };
    return Failure{suspect.is_state ? Verdict::kIncorrectState : Verdict::kIncorrectNumerical,
                   fmt::format("In a timed call, element {} of {} is {} where the baseline has {}.", at, suspect.name,
                               value(suspect.candidate), value(suspect.baseline))};
  }
  return std::nullopt;
}

// Operators with several correct outputs (sampling): here the output must agree with the baseline's.
std::optional<Failure> OutputCheck::own_rule(const CallMemory& memory, int slot, const CallData& data,
                                             Sides sides) const {
  std::vector<OptView> got = memory.written_args(slot, sides.candidate),
                       want = memory.written_args(slot, sides.baseline);
  for (size_t i = 0; i < data.given.size(); ++i)
    if (data.given[i]) got[i] = want[i] = data.given[i]->view();
  std::string wrong = op_.judge(root_.init(), got, want);
  if (wrong.empty()) return std::nullopt;
  return Failure{Verdict::kIncorrectNumerical, fmt::format("In a timed call, {}.", wrong)};
}

CallOutcome OutputCheck::outcome(const CallMemory& memory, int slot, int writer) const {
  CallOutcome outcome;
  for (const OptView& v : memory.written_args(slot, writer)) {
    outcome.written.emplace_back();
    if (v) outcome.written.back() = copy_of(*v);
  }
  for (const View& v : memory.states(slot, writer)) outcome.states.push_back(copy_of(v));
  return outcome;
}

std::optional<OutputCheck::Found> OutputCheck::judge(const CallMemory& memory, int slot, const CallData& data,
                                                     int baseline, std::span<const int> writers, bool calibrate) {
  if (!oracle_affordable()) return std::nullopt;
  // All sides are read before the oracle runs, which evicts what was read before it.
  std::vector<CallOutcome> of_writers;
  for (int writer : writers) of_writers.push_back(outcome(memory, slot, writer));
  CallTruth truth(root_, workload_, data, judge_.oracle(), outcome(memory, slot, baseline), false,
                  typical_.empty() ? judge_.typical_errors() : typical_);
  ++judged_;
  if (!truth.unusable().empty()) return std::nullopt;  // these inputs cannot show errors
  if (calibrate)
    for (const auto& [name, ratio] : truth.ratios()) typical_[name] = std::max(typical_[name], ratio);
  for (size_t i = 0; i < writers.size(); ++i) {
    CallCheckResult checked = truth.check(of_writers[i]);
    elements_ += checked.elements;
    if (checked.fault)
      return Found{writers[i], {checked.fault->verdict, fmt::format("In a timed call, {}", checked.fault->sentence)}};
  }
  return std::nullopt;
}

}  // namespace fk
