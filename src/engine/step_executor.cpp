#include "engine/step_executor.h"

#include <algorithm>
#include <bit>
#include <cstring>

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

// Rows of a recorded step for that many sequences: few enough recordings, and few rows computed for nothing.
int64_t recorded_rows(int64_t sequences) {
  if (sequences <= 8) return power_of_two_from(sequences);
  const int64_t unit = sequences <= 64 ? 8 : 16;
  return (sequences + unit - 1) / unit * unit;
}

// The CPU records nothing, so it need not round.
int64_t most_rows(const StepLimits& limits, Device device) {
  return device == kCpu ? limits.max_sequences : recorded_rows(limits.max_sequences);
}

int64_t most_logits(const StepLimits& limits, Device device) {
  return std::max(most_rows(limits, device),
                  std::min(limits.max_tokens, limits.max_sequences * (1 + limits.max_drafts)));
}

StateRoom fitting_room(const Model& model, const StepLimits& limits) {
  StateRoom room{limits.blocks, limits.page_size, limits.slots > 0 ? limits.slots : limits.max_sequences};
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
      sampler_(most_logits(limits, model.device), {.device = model.device}),
      logits_({most_logits(limits, model.device), model.config.facts.vocab_size}, DType::kF32, model.device),
      step_logits_(logits_.view()),
      arena_(model.device) {
  items_.reserve(static_cast<size_t>(limits.max_sequences));
  if (model.device == kCpu) return;
  for (Drawn& drawn : drawn_) {
    drawn.pinned = std::make_unique<PinnedBuffer>(
        sizeof(int64_t) * static_cast<size_t>(most_logits(limits, model.device)), model.device);
    drawn.arrived = device_runtime(model.device).make_event();
  }
}

Context StepExecutor::context(Arena& arena) {
  void* stream = model_.device == kCpu ? nullptr : device_runtime(model_.device).stream();
  return {pool_, arena, &batch_.attention(), states_.states(), observer_, stream, model_.communicator};
}

void StepExecutor::run_by(Pass pass) {
  pass_ = std::move(pass);
  record_nothing();
}

bool StepExecutor::call(Arena& arena) {
  Context ctx = context(arena);
  View indices = batch_.logits_indices();
  if (pass_) {
    pass_(ctx, batch_, step_logits_.narrow(0, 0, indices.size(0)));
    return false;
  }
  const std::array<OptView, 4> args{batch_.input_ids(), batch_.positions(), indices,
                                    step_logits_.narrow(0, 0, indices.size(0))};
  return model_.call(ctx, args);
}

bool StepExecutor::replay(Recording& recording) {
  if (recording.work == nullptr) {
    recording.arena.reset();  // merges the chunks of the first pass, which must not happen during recording
    DeviceRuntime& runtime = device_runtime(model_.device);
    runtime.begin_recording();
    try {
      recording.instead = call(recording.arena);
    } catch (...) {
      runtime.abandon_recording();
      throw;
    }
    recording.work = runtime.end_recording();
  }
  recording.work->launch();
  return recording.instead;
}

// Runs the step many times. Keys and values of a token are the same each time; per-sequence states are not, so the rows
// have none meanwhile. Not with several ranks, which would have to agree on every trial.
void StepExecutor::tune(Recording& recording, const StepPlan& plan, const StepShape& shape) {
  if (model_.communicator != nullptr && model_.communicator->size() > 1) return;
  std::vector<StepItem> stateless = items_;
  for (StepItem& item : stateless) item.state_slot = -1;
  batch_.assemble(stateless, shape);
  take_drawn_tokens(plan);
  recording.arena.reset();  // merges the chunks of the first pass, which must not happen during recording
  try {
    device_runtime(model_.device).tune([&] {
      recording.arena.reset();
      call(recording.arena);
    });
  } catch (const Error&) {
    // A trial may need memory that is not there. The step runs with the present choices, or says itself what it lacks.
  }
  batch_.assemble(items_, shape);
  take_drawn_tokens(plan);
}

View StepExecutor::forward(const StepPlan& plan, std::span<const std::span<const int64_t>> tokens) {
  FK_CHECK(!plan.empty() && plan.rows.size() == tokens.size());
  static constexpr int64_t kUnknown = 0;  // stands in the place of a token that is only on the device
  items_.clear();
  will_draw_.clear();
  draws_ = prompt_logits_ = 0;
  bool all_decode = true;
  int64_t most_blocks = 1;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlannedRow& row = plan.rows[i];
    if (row.first_step) states_.clear_slot(row.state_slot);
    items_.push_back({.tokens = row.takes_drawn
                                    ? std::span(&kUnknown, 1)
                                    : tokens[i].subspan(static_cast<size_t>(row.first), static_cast<size_t>(row.count)),
                      .context_len = row.first,
                      .blocks = row.blocks,
                      .state_slot = row.state_slot,
                      .logits = row.draws_rows(),
                      .prompt_logits = row.prompt_logits});
    will_draw_.insert(will_draw_.end(), static_cast<size_t>(row.draws_rows()), row.request);
    draws_ += row.draws_rows();
    prompt_logits_ += row.prompt_logits;
    all_decode = all_decode && row.draws && row.count == 1 && row.first > 0;
    most_blocks = std::max(most_blocks, std::ssize(row.blocks));
  }
  // Models compute logits of at least one row.
  if (draws_ + prompt_logits_ == 0) items_.back().logits = 1;
  step_logits_ = logits_.view();
  if (draws_ + prompt_logits_ > logits_.view().size(0)) {
    FK_CHECK(prompt_logits_ <= limits_.max_prompt_logits);
    if (!wide_logits_)
      wide_logits_.emplace(
          Shape{most_logits(limits_, model_.device) + limits_.max_prompt_logits, logits_.view().size(1)}, DType::kF32,
          model_.device);
    step_logits_ = wide_logits_->view();
  }
  arena_.reset();
  StepShape shape;
  // Fewer widths are fewer recordings; the table of many long sequences is too large to be copied for every step.
  constexpr int64_t kLeastWidth = 64;
  if (model_.device != kCpu)
    shape.table_width = std::min(std::max(power_of_two_from(most_blocks), kLeastWidth), blocks_per_sequence(limits_));
  // A graph cannot be synchronised after every operator.
  const bool records = records_ && model_.device != kCpu && all_decode && observer_ == nullptr && !debug_sync();
  if (records) shape.decode_rows = recorded_rows(std::ssize(plan.rows));
  batch_.assemble(items_, shape);
  take_drawn_tokens(plan);
  bool instead = false;
  if (!records) {
    instead = call(arena_);
  } else {
    const std::pair key(shape.decode_rows, shape.table_width);
    if (auto at = recordings_.find(key); at != recordings_.end()) {
      if (at->second.work == nullptr) tune(at->second, plan, shape);
      instead = replay(at->second);
    } else {
      Recording first(model_.device);
      instead = call(first.arena);  // if it fails, the next step is a first one again
      recordings_.emplace(key, std::move(first));
    }
  }
  passes_instead_ += instead ? 1 : 0;
  return logits();
}

// Rows that decode come first in the plan and in the flat batch, so row i is token i. Most rows keep their order from
// step to step: they are copied together.
void StepExecutor::take_drawn_tokens(const StepPlan& plan) const {
  const View to = batch_.input_ids(), from = sampler_.tokens();
  size_t next = 0;  // of drew_, where the next row is looked for first
  auto place_of = [&](RequestId request) {
    for (size_t tries = 0; tries < drew_.size(); ++tries, ++next) {
      if (next >= drew_.size()) next = 0;
      if (drew_[next] == request) return next;
    }
    FK_CHECK(false, "the step before drew no token for this row");
    return next;
  };
  for (size_t row = 0; row < plan.rows.size() && plan.rows[row].first > 0;) {
    if (!plan.rows[row].takes_drawn) {
      ++row;
      continue;
    }
    const size_t first = row, place = place_of(plan.rows[row].request);
    while (++row < plan.rows.size() && plan.rows[row].takes_drawn && place + row - first < drew_.size() &&
           plan.rows[row].request == drew_[place + row - first])
      continue;
    next = place + row - first;
    int64_t* target = to.ptr<int64_t>() + first;
    const int64_t* source = from.ptr<int64_t>() + place;
    const size_t bytes = (row - first) * sizeof(int64_t);
    if (model_.device == kCpu)
      std::memcpy(target, source, bytes);
    else
      device_runtime(model_.device).copy(target, source, bytes);
  }
}

void StepExecutor::draw(std::span<const SampledRow> rows) {
  FK_CHECK(std::ssize(rows) == draws_ && drawn_outstanding_ < drawn_.size());
  Drawn& drawn = drawn_[(drawn_first_ + drawn_outstanding_) % drawn_.size()];
  drawn.count = draws_;
  std::swap(drew_, will_draw_);
  if (draws_ > 0) {
    sampler_.set(rows);
    Context ctx = context(arena_);
    sampler_.draw(ctx, logits());
    const View tokens = sampler_.tokens();
    if (drawn.pinned) {
      device_runtime(model_.device).download_later(drawn.pinned->data(), tokens.data(), tokens.size_bytes());
      drawn.arrived->record();
    } else {
      drawn.tokens.assign(tokens.ptr<int64_t>(), tokens.ptr<int64_t>() + draws_);
    }
  }
  ++drawn_outstanding_;
}

std::span<const int64_t> StepExecutor::drawn() {
  FK_CHECK(drawn_outstanding_ > 0);
  Drawn& drawn = drawn_[drawn_first_];
  drawn_first_ = (drawn_first_ + 1) % drawn_.size();
  --drawn_outstanding_;
  if (drawn.count == 0) return {};
  if (!drawn.pinned) return drawn.tokens;
  drawn.arrived->wait();
  return {static_cast<const int64_t*>(drawn.pinned->data()), static_cast<size_t>(drawn.count)};
}

size_t StepExecutor::memory_bytes() const {
  size_t bytes = states_.size_bytes() + arena_.capacity_bytes() + logits_.view().size_bytes();
  if (wide_logits_) bytes += wide_logits_->view().size_bytes();
  for (const auto& [shape, recording] : recordings_) bytes += recording.arena.capacity_bytes();
  return bytes;
}

}  // namespace fk
