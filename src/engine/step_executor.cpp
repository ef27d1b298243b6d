#include "engine/step_executor.h"

#include <algorithm>
#include <bit>

#include "core/debug_sync.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "measure/memory_room.h"

namespace fk {
namespace {

int64_t power_of_two_from(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

int64_t blocks_per_sequence(const StepLimits& limits) {
  return (limits.max_context + limits.page_size - 1) / limits.page_size;
}

// The CPU records nothing, so it need not round.
int64_t most_rows(const StepLimits& limits, Device device) {
  return device == kCpu ? limits.max_sequences : power_of_two_from(limits.max_sequences);
}

StateRoom fitting_room(const Model& model, const StepLimits& limits) {
  StateRoom room{limits.blocks, limits.page_size, limits.max_sequences};
  double bytes = StatePool::size_bytes(collect_states(*model.root), model.config.facts.dtype, room);
  require_memory(bytes, model.device,
                 fmt::format("The states (keys and values) of {} sequences and {} blocks of {} tokens", room.slots,
                             room.blocks, room.page_size),
                 "ask for a smaller cache or fewer sequences");
  return room;
}

}  // namespace

StepExecutor::StepExecutor(const Model& model, ThreadPool& pool, const StepLimits& limits)
    : model_(model),
      pool_(pool),
      limits_(limits),
      states_(collect_states(*model.root), model.config.facts.dtype, fitting_room(model, limits), model.device),
      batch_(std::max(limits.max_tokens, most_rows(limits, model.device)), most_rows(limits, model.device),
             blocks_per_sequence(limits), limits.page_size, model.device),
      sampler_(limits.max_sequences, {.device = model.device}),
      logits_({most_rows(limits, model.device), model.config.facts.vocab_size}, DType::kF32, model.device),
      arena_(model.device),
      drawn_({limits.max_sequences}, kCpu) {
  items_.reserve(static_cast<size_t>(limits.max_sequences));
}

Context StepExecutor::context(Arena& arena) {
  void* stream = model_.device == kCpu ? nullptr : device_runtime(model_.device).stream();
  return {pool_, arena, &batch_.attention(), states_.states(), observer_, stream, model_.communicator};
}

void StepExecutor::call(Arena& arena) {
  Context ctx = context(arena);
  View indices = batch_.logits_indices();
  const std::array<OptView, 4> args{batch_.input_ids(), batch_.positions(), indices,
                                    logits_.view().narrow(0, 0, indices.size(0))};
  model_.root->call(ctx, args);
}

void StepExecutor::replay(Recording& recording) {
  if (recording.work == nullptr) {
    recording.arena.reset();  // merges the chunks of the first pass, which must not happen during recording
    DeviceRuntime& runtime = device_runtime(model_.device);
    runtime.begin_recording();
    try {
      call(recording.arena);
    } catch (...) {
      runtime.abandon_recording();
      throw;
    }
    recording.work = runtime.end_recording();
  }
  recording.work->launch();
}

View StepExecutor::forward(const StepPlan& plan, std::span<const std::span<const int64_t>> tokens) {
  FK_CHECK(!plan.empty() && plan.rows.size() == tokens.size());
  items_.clear();
  draws_ = 0;
  bool all_decode = true;
  int64_t most_blocks = 1;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlannedRow& row = plan.rows[i];
    FK_CHECK(!row.takes_drawn, "steps are planned when the tokens of the previous one are known");
    if (row.first_step) states_.clear_slot(row.state_slot);
    items_.push_back({.tokens = tokens[i].subspan(static_cast<size_t>(row.first), static_cast<size_t>(row.count)),
                      .context_len = row.first,
                      .blocks = row.blocks,
                      .state_slot = row.state_slot,
                      .wants_logits = row.draws});
    draws_ += row.draws ? 1 : 0;
    all_decode = all_decode && row.draws && row.count == 1 && row.first > 0;
    most_blocks = std::max(most_blocks, std::ssize(row.blocks));
  }
  // Models compute logits of at least one row.
  if (draws_ == 0) items_.back().wants_logits = true;
  arena_.reset();
  StepShape shape;
  // Fewer widths are fewer recordings; the table of many long sequences is too large to be copied for every step.
  constexpr int64_t kLeastWidth = 64;
  if (model_.device != kCpu)
    shape.table_width = std::min(std::max(power_of_two_from(most_blocks), kLeastWidth), blocks_per_sequence(limits_));
  // A graph cannot be synchronised after every operator.
  const bool records = model_.device != kCpu && all_decode && observer_ == nullptr && !debug_sync();
  if (records) shape.decode_rows = power_of_two_from(std::ssize(plan.rows));
  batch_.assemble(items_, shape);
  if (!records) {
    call(arena_);
  } else {
    auto [at, first_time] = recordings_.try_emplace({shape.decode_rows, shape.table_width}, model_.device);
    if (first_time)
      call(at->second.arena);
    else
      replay(at->second);
  }
  return logits_.view().narrow(0, 0, draws_);
}

void StepExecutor::draw(std::span<const SampledRow> rows) {
  FK_CHECK(std::ssize(rows) == draws_);
  if (draws_ == 0) return;
  sampler_.set(rows);
  Context ctx = context(arena_);
  sampler_.draw(ctx, logits_.view().narrow(0, 0, draws_));
}

std::span<const int64_t> StepExecutor::drawn() {
  if (draws_ == 0) return {};
  copy_between(sampler_.tokens(), drawn_.view().narrow(0, 0, draws_));
  return {drawn_.host(), static_cast<size_t>(draws_)};
}

size_t StepExecutor::memory_bytes() const {
  size_t bytes = states_.size_bytes() + arena_.capacity_bytes() + logits_.view().size_bytes();
  for (const auto& [shape, recording] : recordings_) bytes += recording.arena.capacity_bytes();
  return bytes;
}

}  // namespace fk
