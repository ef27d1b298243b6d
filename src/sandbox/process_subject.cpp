#include "sandbox/process_subject.h"

#include <algorithm>
#include <numeric>

namespace fk {
namespace {

// Repeated, the first byte is NaN in every float dtype and the second is NaN or the largest number, so an element that
// was not written is never right.
constexpr uint8_t kPoisons[] = {0xFF, 0x7F};

constexpr uint64_t kMostRepeats = 4;                     // calls in a request
constexpr size_t kMostRepeatedBytes = size_t{64} << 20;  // memory of all of them; a larger call is made once
constexpr int64_t kLongCall = 100'000'000;               // ns; a longer call is made once

std::vector<TensorSpec> shape_of(const CallData& data) {
  std::vector<TensorSpec> specs;
  for (const auto& t : data.given) specs.push_back(t ? t->view().spec() : TensorSpec{{-1}, DType::kU8});
  for (size_t i = 0; i < data.given.size(); ++i) specs.push_back({{data.row_gap(i)}, DType::kU8});
  for (const Tensor& t : data.states) specs.push_back(t.view().spec());
  for (const SequenceGroup* g : {&data.batch->attention().decode, &data.batch->attention().prefill})
    specs.push_back({{g->num_sequences, g->num_tokens, g->block_table.size(1)}, DType::kI64});
  return specs;
}

size_t bytes_of(const Node& root, const CallData& data) {
  size_t bytes = 0;
  std::vector<OptView> given;
  for (const auto& t : data.given) {
    given.push_back(t ? OptView(t->view()) : std::nullopt);
    bytes += t ? t->view().size_bytes() : 0;
  }
  for (const Tensor& t : data.states) bytes += t.view().size_bytes();
  for (const auto& spec : root.outputs(given).specs) bytes += spec ? spec->size_bytes() : 0;
  return bytes;
}

}  // namespace

ProcessSubject::ProcessSubject(const RunnerOptions& options, uint64_t seed)
    : device_(options.device),
      root_(Registry::instance().at(options.op).build(options.init, {})),
      process_(std::make_unique<RunnerProcess>(options)),
      pattern_(kPoisons[0]),
      random_(seed, "requests") {}

std::optional<Failure> ProcessSubject::bind(std::span<const Tensor> params) {
  // New memory each time: data derived from the old weights, and pointers to them, must become invalid.
  release();
  params_ = share_params(*root_, params, device_);
  params_segment_ = process_->map(*params_);
  std::vector<TensorRef> refs;
  for (size_t i = 0; i < params.size(); ++i) refs.push_back({params_segment_, i});
  prepare_ns_ = process_->bind(refs);
  return process_->failure();
}

void ProcessSubject::release() {
  forget_calls();
  if (params_segment_ >= 0) process_->unmap(params_segment_);
  params_segment_ = -1;
  params_.reset();
}

void ProcessSubject::forget_calls() {
  for (const Mapped& m : mapped_) {
    process_->unmap(m.inputs_segment);
    process_->unmap(m.written_segment);
  }
  mapped_.clear();
}

ProcessSubject::Mapped& ProcessSubject::memory_for(const CallData& data, Placement placement) {
  std::vector<TensorSpec> shape = shape_of(data);
  if (placement == Placement::kSame && !mapped_.empty() && mapped_.back().shape == shape) {
    // Mostly in the opposite order, so that the first call has the addresses of the call before it.
    if (random_.below(draws_++, 4) != 0) std::reverse(mapped_.back().calls.begin(), mapped_.back().calls.end());
    return mapped_.back();
  }
  constexpr size_t kMostMappings = 8;
  if (mapped_.size() >= kMostMappings) forget_calls();
  Mapped m;
  bool repeated = longest_ns_ < kLongCall && bytes_of(*root_, data) <= kMostRepeatedBytes / kMostRepeats;
  m.calls.resize(repeated ? 1 + random_.below(draws_++, kMostRepeats) : 1);
  std::iota(m.calls.begin(), m.calls.end(), 0);
  m.memory = std::make_unique<CallMemory>(*root_, data, static_cast<int>(m.calls.size()), 1, device_);
  // A random number of the slots, in a random order.
  for (size_t i = m.calls.size() - 1; i > 0; --i) std::swap(m.calls[i], m.calls[random_.below(draws_++, i + 1)]);
  m.calls.resize(1 + random_.below(draws_++, m.calls.size()));
  m.inputs_segment = process_->map(m.memory->inputs());
  m.written_segment = process_->map(m.memory->written(0));
  m.shape = std::move(shape);
  mapped_.push_back(std::move(m));
  return mapped_.back();
}

std::optional<Failure> ProcessSubject::refusal(const CallData& shapes) {
  CallMemory memory(*root_, shapes, 1, 1, device_);
  int inputs = process_->map(memory.inputs()), written = process_->map(memory.written(0));
  CallPlan plan = memory.plan(0, inputs, written);
  process_->plan(std::span(&plan, 1));
  std::optional<Failure> refused = process_->refusal();
  process_->unmap(inputs);
  process_->unmap(written);
  return process_->failure() ? process_->failure() : refused;
}

CallOutcome ProcessSubject::call(const CallData& data, Placement placement) {
  CallOutcome outcome;
  Mapped& mapped = memory_for(data, placement);
  pattern_ = pattern_ == kPoisons[0] ? kPoisons[1] : kPoisons[0];
  outcome.poison = pattern_;
  const CallMemory& memory = *mapped.memory;
  std::vector<CallPlan> plans;
  for (int slot = 0; slot < memory.slots(); ++slot)
    plans.push_back(memory.plan(slot, mapped.inputs_segment, mapped.written_segment));
  process_->plan(plans);
  RunMode mode{.key = secret_number() >> 1};
  for (int slot : mapped.calls) memory.stage(slot, data);
  memory.fill(
      mapped.calls, 0, [&](int) -> const CallData& { return data; }, pattern_, mode.key);
  memory.settle();
  RunTimes times = process_->run(mapped.calls, mode);
  outcome.ns = times.ns / static_cast<int64_t>(mapped.calls.size());
  longest_ns_ = std::max(longest_ns_, outcome.ns);
  if ((outcome.failure = times.refused)) return outcome;
  if (!process_->failure())
    if (std::optional<Failure> found = look_after(mapped, data, times)) process_->fail(*found);
  if ((outcome.failure = process_->failure())) return outcome;
  mapped.examined = mapped.calls[random_.below(draws_++, mapped.calls.size())];
  read_all(mapped, outcome);
  return outcome;
}

void ProcessSubject::read_slot(const Mapped& mapped, int slot, CallOutcome& outcome) {
  for (const OptView& v : mapped.memory->written_args(slot, 0)) {
    outcome.written.emplace_back();
    if (v) outcome.written.back() = copy_of(*v);
  }
  for (const View& v : mapped.memory->states(slot, 0)) outcome.states.push_back(copy_of(v));
}

void ProcessSubject::read_all(const Mapped& mapped, CallOutcome& outcome) {
  read_slot(mapped, mapped.examined, outcome);
  std::vector<uint64_t> examined = mapped.memory->fingerprints(std::span(&mapped.examined, 1), 0);
  for (const int& slot : mapped.calls) {
    if (slot == mapped.examined || mapped.memory->fingerprints(std::span(&slot, 1), 0) == examined) continue;
    read_slot(mapped, slot, outcome.differing.emplace_back());
    outcome.differing.back().poison = outcome.poison;
  }
}

std::optional<CallOutcome> ProcessSubject::look_again() {
  constexpr int64_t kAWhile = 50'000'000;
  if (process_->failure() || mapped_.empty()) return std::nullopt;
  process_->let_run(kAWhile);
  if (process_->failure()) return std::nullopt;
  CallOutcome outcome;
  read_all(mapped_.back(), outcome);
  return outcome;
}

// Checks for forbidden side effects of calls. The process is stopped, so its memory is as it was when the clock
// stopped; only a GPU may still be working.
std::optional<Failure> ProcessSubject::look_after(const Mapped& mapped, const CallData& data, const RunTimes& times) {
  const CallMemory& memory = *mapped.memory;
  if (device_ != kCpu && times.at_stop != memory.fingerprints(mapped.calls, 0))
    return Failure{Verdict::kRewardHack,
                   "Its outputs changed after the work on its stream was done: all work must be on that stream."};
  if (auto found = process_->check_state(true)) return found;
  if (auto found = memory.check_margins(mapped.calls, 0, pattern_)) return found;
  for (int slot : mapped.calls)
    if (auto found = memory.check_inputs(slot, data)) return found;
  return params_ ? check_params(*params_) : std::nullopt;
}

}  // namespace fk
