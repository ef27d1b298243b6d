#include "bench/kernels/output_check.h"

#include <cmath>
#include <deque>
#include <limits>

#include "core/device_judging.h"
#include "core/device_runtime.h"
#include "validate/compare.h"

namespace fk {
namespace {
// Each of the two may be three contract tolerances from the truth (validate/compare.h).
constexpr double kApart = 2 * kContractFactor;
constexpr int64_t kStretch = 64;  // elements

Apart most_apart(const Tolerance& tolerance, DType dtype) {
  return {kApart * tolerance.relative + dtype_epsilon(dtype), kApart * tolerance.of_scale,
          2 * negligible_error(tolerance, dtype)};
}

}  // namespace

OutputCheck::OutputCheck(const OperatorInfo& op, const Fields& init, DType dtype)
    : op_(op), init_(init), dtype_(dtype) {}

std::optional<Failure> OutputCheck::compare(const CallMemory& memory, int slot, const CallData& data, int candidate,
                                            int baseline) const {
  std::vector<OptView> got = memory.written_args(slot, candidate), want = memory.written_args(slot, baseline);
  std::deque<Tensor> dense;  // of states whose rows lie apart
  for (auto* views : {&got, &want})
    for (OptView& v : *views)
      if (v && !v->contiguous()) v = dense.emplace_back(copy_of(*v)).view();
  if (op_.judge != nullptr) {
    for (size_t i = 0; i < data.given.size(); ++i)
      if (data.given[i]) got[i] = want[i] = data.given[i]->view();
    std::string wrong = op_.judge(init_, got, want);
    if (wrong.empty()) return std::nullopt;
    return Failure{Verdict::kIncorrectNumerical, fmt::format("In a timed call, {}.", wrong)};
  }
  Tolerance tolerance = tolerance_for(data);
  for (size_t i = 0; i < got.size(); ++i) {
    if (!got[i]) continue;
    Verdict verdict = op_.args[i].role == Role::kState ? Verdict::kIncorrectState : Verdict::kIncorrectNumerical;
    if (auto found = compare_tensor(std::string(op_.args[i].name), *got[i], *want[i], tolerance, verdict)) return found;
  }
  std::vector<View> got_kv = memory.kv_cache(slot, candidate), want_kv = memory.kv_cache(slot, baseline);
  for (size_t i = 0; i < got_kv.size(); ++i)
    if (auto found = compare_tensor(i % 2 == 0 ? "the key cache" : "the value cache", got_kv[i], want_kv[i], tolerance,
                                    Verdict::kIncorrectState))
      return found;
  return std::nullopt;
}

std::optional<bool> OutputCheck::agree_on_gpu(const CallMemory& memory, int slot, int candidate, int baseline) const {
  if (memory.device() == kCpu || op_.judge != nullptr) return std::nullopt;
  std::vector<View> got = memory.written_tensors(slot, candidate), want = memory.written_tensors(slot, baseline);
  for (const View& v : want)
    if (v.dtype() != DType::kF32 && v.dtype() != DType::kF16 && v.dtype() != DType::kBF16) return std::nullopt;
  DeviceJudging& gpu = device_runtime(memory.device()).judging();
  Tolerance tolerance = op_.tolerance(init_, dtype_);
  for (size_t i = 0; i < got.size(); ++i)
    if (gpu.count_apart(got[i], want[i], most_apart(tolerance, want[i].dtype())) != 0) return false;
  return true;
}

Tolerance OutputCheck::tolerance_for(const CallData& data) const {
  std::vector<OptView> given;
  for (const auto& t : data.given) given.push_back(t ? OptView(t->view()) : std::nullopt);
  return op_.tolerance_on(init_, dtype_, given);
}

bool OutputCheck::looks_wrong(const CallMemory& memory, int slot, const CallData& data, int candidate, int baseline,
                              uint64_t secret) const {
  Tolerance tolerance = tolerance_for(data);
  for (const CallMemory::Stretch& s : memory.stretches(slot, data, candidate, baseline, kStretch, secret))
    if (compare_tensor("", s.first, s.second, tolerance, Verdict::kIncorrectNumerical)) return true;
  return false;
}

std::optional<Failure> OutputCheck::compare_tensor(const std::string& name, const View& candidate, const View& baseline,
                                                   const Tolerance& tolerance, Verdict verdict) {
  Bounds bounds = Bounds::exact();
  Tensor wide;
  View reference = baseline;
  if (dtype_is_float(baseline.dtype())) {
    wide = Tensor(baseline.shape(), DType::kF64);
    copy_elements(baseline, wide);
    reference = wide;
    double largest = 0;
    for (int64_t i = 0; i < reference.numel(); ++i) largest = std::max(largest, std::abs(wide.ptr<double>()[i]));
    Apart apart = most_apart(tolerance, baseline.dtype());
    bounds = {apart.relative, apart.of_scale * largest + apart.absolute, std::numeric_limits<double>::max(),
              std::numeric_limits<double>::max()};
  }
  Comparison c = fk::compare(candidate, reference, bounds);
  if (c.ok()) return std::nullopt;
  return Failure{verdict, fmt::format("In a timed call, '{}' {}", name, c.sentence)};
}

}  // namespace fk
