#include "bench/kernels/fresh_inputs.h"

#include <algorithm>
#include <cstring>

#include "candidate/runner/call_memory.h"

namespace fk {
namespace {
// Elements of a piece: at most a number that divides no usual row length, so that rows differ in more than their order,
// and few enough that small tensors consist of several.
constexpr int64_t kLargestPiece = 1000, kPieces = 8;
}  // namespace

FreshInputs::FreshInputs(const Node& root, const InputMaker& maker, const Workload& workload, uint64_t seed)
    : random_(seed, "fresh inputs"), base_(maker.make_recorded(root, workload, seed)) {
  for (const std::optional<InputSpec>& spec : maker.specs(root, workload))
    renewable_.push_back(spec && !spec->generator.is_metadata());
}

const CallData& FreshInputs::next(int slot) {
  while (slots_.size() <= static_cast<size_t>(slot)) {
    CallData copy;
    for (const auto& t : base_.given) {
      copy.given.emplace_back();
      if (t) copy.given.back() = copy_of(*t);
    }
    for (const Tensor& t : base_.kv_cache) copy.kv_cache.push_back(copy_of(t));
    copy.row_gaps = base_.row_gaps;
    copy.batch = base_.batch;
    slots_.push_back(std::move(copy));
  }
  CallData& data = slots_[static_cast<size_t>(slot)];
  for (size_t i = 0; i < base_.given.size(); ++i)
    if (renewable_[i]) renew(*base_.given[i], *data.given[i]);
  for (size_t i = 0; i < base_.kv_cache.size(); ++i) renew(base_.kv_cache[i], data.kv_cache[i]);
  return data;
}

void FreshInputs::renew(const View& from, const View& to) {
  auto width = static_cast<int64_t>(dtype_size(from.dtype()));
  int64_t n = from.numel();
  auto* source = static_cast<const std::byte*>(from.data());
  auto* target = static_cast<std::byte*>(to.data());
  int64_t piece = std::clamp<int64_t>(n / kPieces, 1, kLargestPiece);
  for (int64_t at = 0; at < n; at += piece) {
    int64_t length = std::min(piece, n - at);
    auto start = static_cast<int64_t>(random_.below(draws_++, static_cast<uint64_t>(n - length + 1)));
    std::memcpy(target + at * width, source + start * width, static_cast<size_t>(length * width));
  }
}

}  // namespace fk
