#include "engine/encoder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/debug_sync.h"
#include "core/device_runtime.h"
#include "core/error.h"

namespace fk {
namespace {

std::map<Task, EncoderFactory>& factories() {
  static std::map<Task, EncoderFactory> all;
  return all;
}

void normalize(float* vector, int64_t size) {
  constexpr double kLeastLength = 1e-12;  // shorter ones are divided by this, as in PyTorch
  double squares = 0;
  for (int64_t i = 0; i < size; ++i) squares += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
  auto factor = static_cast<float>(1 / std::max(std::sqrt(squares), kLeastLength));
  for (int64_t i = 0; i < size; ++i) vector[i] *= factor;
}

}  // namespace

RegisterEncoder::RegisterEncoder(Task task, EncoderFactory factory) { factories().emplace(task, factory); }

std::unique_ptr<Encoder> make_encoder(const Model& model, ThreadPool& pool) {
  auto found = factories().find(model.config.facts.task);
  if (found == factories().end()) model.config.require_task(Task::kTextEncoder, model.name, "encode");
  return found->second(model, pool);
}

View Encoder::grown(Tensor& tensor, const Shape& shape, DType dtype, Device device) {
  if (tensor.view().data() == nullptr || tensor.view().dtype() != dtype || tensor.view().numel() < shape.numel())
    tensor = Tensor(Shape{std::max<int64_t>(shape.numel(), 1)}, dtype, device);
  return View(tensor.view().data(), shape, dtype, device);
}

View Encoder::on_device(const View& host, Tensor& copy) const {
  if (model_.device == kCpu) return host;
  View there = grown(copy, host.shape(), host.dtype(), model_.device);
  // Not waited for: the pass comes after it on the stream, and `host` is not written before the pass has ended.
  if (host.numel() > 0) device_runtime(model_.device).upload(there.data(), host.data(), host.size_bytes());
  return there;
}

Context Encoder::context(Arena& arena) {
  return {.pool = pool_,
          .arena = arena,
          .attention = &metadata_,
          .observer = observer_,
          .stream = model_.device == kCpu ? nullptr : device_runtime(model_.device).stream()};
}

void Encoder::set_starts(const std::vector<Sequence>& sequences) {
  auto count = static_cast<int64_t>(sequences.size());
  View starts = grown(starts_, {count + 1}, DType::kI32), lengths = grown(lengths_, {count}, DType::kI32);
  starts.ptr<int32_t>()[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    auto length = static_cast<int32_t>(sequences[static_cast<size_t>(i)].query_len);
    lengths.ptr<int32_t>()[i] = length;
    starts.ptr<int32_t>()[i + 1] = starts.ptr<int32_t>()[i] + length;
  }
  View starts_there = on_device(starts, starts_on_device_);
  // There are no states, so there are no blocks and slots of states either.
  metadata_.prefill = {.num_sequences = count,
                       .num_tokens = starts.ptr<int32_t>()[count],
                       .cu_seqlens_q = starts_there,
                       .cu_seqlens_k = starts_there,
                       .seq_lens = on_device(lengths, lengths_on_device_),
                       .block_table = {},
                       .state_slots = {}};
}

Encoded Encoder::forward(const EncoderInput& input) {
  if (input.size() == 0) throw Error("There is no {} to encode; give at least one.", noun());
  check(input);
  set_starts(sequences(input));
  std::vector<OptView> arguments;
  fill_arguments(input, arguments);
  arguments_on_device_.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i] = on_device(*arguments[i], arguments_on_device_[i]);
  Encoded encoded{.last_hidden_state = {}, .pooler_output = {}, .cu_seqlens = metadata_.prefill.cu_seqlens_q};
  arguments.emplace_back(encoded.cu_seqlens);
  OutputSpecs outputs = model_.root->outputs(arguments);
  auto output = [&](Tensor& memory, const TensorSpec& spec) {
    return grown(memory, spec.shape, spec.dtype, model_.device);
  };
  encoded.last_hidden_state = output(hidden_, *outputs.specs[0]);
  if (outputs.specs[1]) encoded.pooler_output = output(pooled_, *outputs.specs[1]);
  arguments.emplace_back(encoded.last_hidden_state);
  if (arguments.size() < model_.root->info().args.size()) arguments.push_back(encoded.pooler_output);
  run(arguments);
  return encoded;
}

void Encoder::run(const std::vector<OptView>& arguments) {
  arena_.reset();  // merges the chunks of the pass before, which must not happen during recording
  Context ctx = context(arena_);
  if (model_.device == kCpu) {
    model_.call(ctx, arguments);
    return;
  }
  DeviceRuntime& runtime = device_runtime(model_.device);
  std::vector<std::pair<const void*, Shape>> places;
  for (const OptView& argument : arguments)
    if (argument) places.emplace_back(argument->data(), argument->shape());
  // A graph cannot be synchronised after every operator.
  const bool repeated = places == places_ && observer_ == nullptr && !debug_sync();
  if (!repeated) {
    recorded_.reset();
    places_ = std::move(places);
    model_.call(ctx, arguments);
  } else {
    if (recorded_ == nullptr) {
      runtime.begin_recording();
      try {
        model_.call(ctx, arguments);
      } catch (...) {
        runtime.abandon_recording();
        throw;
      }
      recorded_ = runtime.end_recording();
    }
    recorded_->launch();
  }
  runtime.synchronize();
}

View Encoder::embed(const Encoded& encoded, const EmbeddingOptions& options) {
  bool own_head = options.pooling == "pooler";
  if (own_head && !encoded.pooler_output)
    throw Error("{} has no pooling head of its own; use another --pooling.", model_.name);
  View vectors = own_head ? *encoded.pooler_output : encoded.last_hidden_state, starts = encoded.cu_seqlens;
  embedding_arena_.reset();
  if (own_head) {  // one vector for each input
    std::vector<int32_t> counted(static_cast<size_t>(starts.size(0)));
    std::iota(counted.begin(), counted.end(), 0);
    starts = embedding_arena_.make(starts.spec());
    copy_between(View(counted.data(), starts.shape(), starts.dtype()), starts);
  }
  Op<SequencePool> pool = builder_.child<SequencePool>(
      "", {.pooling = own_head ? "cls" : std::string(options.pooling), .float_output = true});
  Shape shape{starts.size(0) - 1, vectors.size(1)};
  View embeddings = grown(embeddings_, shape, DType::kF32);
  Context ctx = context(embedding_arena_);
  ctx.observer = nullptr;  // it observes the operators of the model
  if (model_.device == kCpu) {
    pool.into(ctx, vectors, starts, embeddings);
  } else {
    View there = grown(embeddings_on_device_, shape, DType::kF32, model_.device);
    pool.into(ctx, vectors, starts, there);
    copy_between(there, embeddings);
  }
  if (options.normalize)
    for (int64_t i = 0; i < embeddings.size(0); ++i)
      normalize(embeddings.ptr<float>() + i * embeddings.size(1), embeddings.size(1));
  return embeddings;
}

}  // namespace fk
