#include "engine/decode_loop.h"

#include <algorithm>
#include <bit>

#include "core/debug_sync.h"
#include "core/error.h"

namespace fk {
namespace {

// The CPU records no graphs, so it need not round.
int64_t bucket_for(int64_t sequences, Device device) {
  if (device == kCpu) return sequences;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(sequences, 1))));
}

int64_t table_width(const ModelExecutor& executor) {
  int64_t page = executor.options().page_size;
  return (executor.options().max_context + page - 1) / page;
}

}  // namespace

DecodeLoop::DecodeLoop(ModelExecutor& executor, int64_t max_sequences)
    : DecodeLoop(executor, bucket_for(max_sequences, executor.model().device), executor.model().device) {}

DecodeLoop::DecodeLoop(ModelExecutor& executor, int64_t rows, Device device)
    : executor_(executor),
      sampler_(rows, {.device = device}),
      builder_({.device = device}),
      advance_(builder_.child<AdvanceStep>("advance_step", {.block_size = executor.options().page_size})),
      ids_({rows}, device),
      positions_({rows}, device),
      slots_({rows}, device),
      indices_({rows}, device),
      drawn_({rows}, kCpu),
      lengths_({rows}, device),
      cu_q_({rows + 1}, device),
      cu_k_({rows + 1}, device),
      table_({rows, table_width(executor)}, device),
      state_slots_({rows}, device),
      logits_({rows, executor.model().config.facts.vocab_size}, DType::kF32, device),
      arena_(device) {}

void DecodeLoop::start(std::span<RunningSequence* const> sequences, std::span<const int64_t> tokens,
                       std::span<const SamplingParams> params, std::span<const int64_t> drawn, int64_t steps) {
  FK_CHECK(sequences.size() == tokens.size() && tokens.size() == params.size() && params.size() == drawn.size());
  sequences_.assign(sequences.begin(), sequences.end());
  bucket_ = bucket_for(static_cast<int64_t>(sequences.size()), executor_.model().device);
  FK_CHECK(bucket_ <= ids_.view().size(0), "more sequences than the loop was made for");
  steps_left_ = steps;

  std::vector<SamplingParams> all_params(params.begin(), params.end());
  std::vector<int64_t> all_drawn(drawn.begin(), drawn.end());
  all_params.resize(static_cast<size_t>(bucket_));
  all_drawn.resize(static_cast<size_t>(bucket_));
  sampler_.set(all_params, all_drawn);

  const int64_t width = table_.view().size(1), page = executor_.options().page_size;
  std::fill_n(table_.host(), bucket_ * width, 0);
  cu_q_.host()[0] = cu_k_.host()[0] = 0;
  for (int64_t i = 0; i < bucket_; ++i) {
    bool is_sequence = i < static_cast<int64_t>(sequences_.size());
    ids_.host()[i] = positions_.host()[i] = 0;
    slots_.host()[i] = -1;
    lengths_.host()[i] = 0;
    state_slots_.host()[i] = -1;
    indices_.host()[i] = i;
    if (is_sequence) {
      RunningSequence& sequence = *sequences_[static_cast<size_t>(i)];
      executor_.reserve(sequence, steps);
      std::copy(sequence.blocks.begin(), sequence.blocks.end(), table_.host() + i * width);
      ids_.host()[i] = tokens[static_cast<size_t>(i)];
      positions_.host()[i] = sequence.length;
      slots_.host()[i] = sequence.blocks[static_cast<size_t>(sequence.length / page)] * page + sequence.length % page;
      state_slots_.host()[i] = sequence.state_slot;
      lengths_.host()[i] = static_cast<int32_t>(sequence.length) + 1;
    }
    cu_q_.host()[i + 1] = static_cast<int32_t>(i) + 1;
    cu_k_.host()[i + 1] = cu_k_.host()[i] + lengths_.host()[i];
  }
  for (const Mirrored<int64_t>* numbers : {&ids_, &positions_, &slots_, &indices_}) numbers->push(bucket_);
  for (const Mirrored<int32_t>* numbers : {&cu_q_, &cu_k_}) numbers->push(bucket_ + 1);
  lengths_.push(bucket_);
  state_slots_.push(bucket_);
  table_.push(bucket_ * width);

  attention_ = {};
  attention_.decode = {.num_sequences = bucket_,
                       .num_tokens = bucket_,
                       .cu_seqlens_q = cu_q_.view().narrow(0, 0, bucket_ + 1),
                       .cu_seqlens_k = cu_k_.view().narrow(0, 0, bucket_ + 1),
                       .seq_lens = rows(lengths_.view()),
                       .block_table = rows(table_.view()),
                       .state_slots = rows(state_slots_.view())};
  attention_.slot_mapping = rows(slots_.view());
  attention_.page_size = page;
}

Context DecodeLoop::context(Arena& arena) {
  Context of_model = executor_.context();
  return {.pool = of_model.pool,
          .arena = arena,
          .attention = &attention_,
          .states = of_model.states,
          .observer = of_model.observer,
          .stream = of_model.stream,
          .communicator = of_model.communicator};
}

void DecodeLoop::call_model(Context& ctx) {
  const std::array<OptView, 4> args{rows(ids_.view()), rows(positions_.view()), rows(indices_.view()),
                                    rows(logits_.view())};
  executor_.model().call(ctx, args);
}

// Runs the step many times. Keys and values of a token are the same each time; per-sequence states are not, so the rows
// have none meanwhile. Not with several ranks, which would have to agree on every trial.
void DecodeLoop::tune(Arena& arena) {
  Context ctx = context(arena);
  if (ctx.communicator != nullptr && ctx.communicator->size() > 1) return;
  const std::vector<int32_t> slots(state_slots_.host(), state_slots_.host() + bucket_);
  std::fill_n(state_slots_.host(), bucket_, -1);
  state_slots_.push(bucket_);
  try {
    device_runtime(executor_.model().device).tune([&] {
      arena.reset();
      call_model(ctx);
    });
  } catch (const Error&) {
    // A trial may need memory that is not there. The step runs with the present choices, or says itself what it lacks.
  }
  std::copy(slots.begin(), slots.end(), state_slots_.host());
  state_slots_.push(bucket_);
  arena.reset();
}

void DecodeLoop::run(Arena& arena) {
  Context ctx = context(arena);
  call_model(ctx);
  sampler_.draw(ctx, rows(logits_.view()));
  advance_.into(ctx, sampler_.tokens(), attention_.decode.block_table, rows(positions_.view()), rows(lengths_.view()),
                sampler_.steps(), rows(ids_.view()), attention_.slot_mapping, attention_.decode.cu_seqlens_k);
}

void DecodeLoop::replay(Recording& recording) {
  if (recording.work == nullptr) {
    recording.arena.reset();  // merges the chunks of the first step, which must not happen during recording
    tune(recording.arena);
    DeviceRuntime& runtime = device_runtime(executor_.model().device);
    runtime.begin_recording();
    try {
      run(recording.arena);
    } catch (...) {
      runtime.abandon_recording();
      throw;
    }
    recording.work = runtime.end_recording();
  }
  recording.work->launch();
}

void DecodeLoop::step() {
  FK_CHECK(steps_left_ > 0, "more steps than room was reserved for");
  --steps_left_;
  Device device = executor_.model().device;
  // A graph cannot be synchronised after every operator.
  if (device == kCpu || executor_.context().observer != nullptr || debug_sync()) {
    arena_.reset();
    run(arena_);
  } else if (auto at = recorded_.find({bucket_, sampler_.greedy()}); at != recorded_.end()) {
    replay(at->second);
  } else {
    Recording first(device);
    run(first.arena);  // if it fails, the next step is a first one again
    recorded_.emplace(std::pair(bucket_, sampler_.greedy()), std::move(first));
  }
  for (RunningSequence* sequence : sequences_) ++sequence->length;
}

void DecodeLoop::step_with(std::span<const int64_t> tokens) {
  FK_CHECK(tokens.size() == sequences_.size());
  std::copy(tokens.begin(), tokens.end(), ids_.host());
  ids_.push(static_cast<int64_t>(tokens.size()));
  step();
}

std::span<const int64_t> DecodeLoop::drawn() {
  auto count = static_cast<int64_t>(sequences_.size());
  View tokens = sampler_.tokens().narrow(0, 0, count);
  copy_between(tokens, drawn_.view().narrow(0, 0, count));
  return {drawn_.host(), sequences_.size()};
}

}  // namespace fk
