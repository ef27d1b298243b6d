#include "engine/encoder.h"

#include <algorithm>
#include <cmath>
#include <map>

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

View Encoder::grown(Tensor& tensor, const Shape& shape, DType dtype) {
  if (tensor.view().data() == nullptr || tensor.view().dtype() != dtype || tensor.view().numel() < shape.numel())
    tensor = Tensor(Shape{std::max<int64_t>(shape.numel(), 1)}, dtype);
  return View(tensor.view().data(), shape, dtype);
}

Context Encoder::context() { return {.pool = pool_, .arena = arena_, .attention = &metadata_, .observer = observer_}; }

void Encoder::set_starts(const std::vector<Sequence>& sequences) {
  auto count = static_cast<int64_t>(sequences.size());
  View starts = grown(starts_, {count + 1}, DType::kI32), lengths = grown(lengths_, {count}, DType::kI32);
  starts.ptr<int32_t>()[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    auto length = static_cast<int32_t>(sequences[static_cast<size_t>(i)].query_len);
    lengths.ptr<int32_t>()[i] = length;
    starts.ptr<int32_t>()[i + 1] = starts.ptr<int32_t>()[i] + length;
  }
  // There are no states, so there are no blocks and slots of states either.
  metadata_.prefill = {.num_sequences = count,
                       .num_tokens = starts.ptr<int32_t>()[count],
                       .cu_seqlens_q = starts,
                       .cu_seqlens_k = starts,
                       .seq_lens = lengths,
                       .block_table = {},
                       .state_slots = {}};
}

Encoded Encoder::forward(const EncoderInput& input) {
  if (input.size() == 0) throw Error("There is no {} to encode; give at least one.", noun());
  check(input);
  set_starts(sequences(input));
  std::vector<OptView> arguments;
  fill_arguments(input, arguments);
  Encoded encoded{.last_hidden_state = {}, .pooler_output = {}, .cu_seqlens = metadata_.prefill.cu_seqlens_q};
  arguments.emplace_back(encoded.cu_seqlens);
  OutputSpecs outputs = model_.root->outputs(arguments);
  encoded.last_hidden_state = grown(hidden_, outputs.specs[0]->shape, outputs.specs[0]->dtype);
  if (outputs.specs[1]) encoded.pooler_output = grown(pooled_, outputs.specs[1]->shape, outputs.specs[1]->dtype);
  arguments.emplace_back(encoded.last_hidden_state);
  arguments.push_back(encoded.pooler_output);
  arena_.reset();
  Context ctx = context();
  model_.root->call(ctx, arguments);
  return encoded;
}

View Encoder::embed(const Encoded& encoded, const EmbeddingOptions& options) {
  bool own_head = options.pooling == "pooler";
  if (own_head && !encoded.pooler_output)
    throw Error("{} has no pooling head of its own; use another --pooling.", model_.name);
  View vectors = own_head ? *encoded.pooler_output : encoded.last_hidden_state, starts = encoded.cu_seqlens;
  embedding_arena_.reset();
  if (own_head) {  // one vector for each input
    starts = embedding_arena_.make(starts.spec());
    for (int64_t i = 0; i < starts.size(0); ++i) starts.ptr<int32_t>()[i] = static_cast<int32_t>(i);
  }
  Op<SequencePool> pool = builder_.child<SequencePool>(
      "", {.pooling = own_head ? "cls" : std::string(options.pooling), .float_output = true});
  View embeddings = grown(embeddings_, {starts.size(0) - 1, vectors.size(1)}, DType::kF32);
  Context ctx{.pool = pool_, .arena = embedding_arena_, .observer = nullptr};
  pool.into(ctx, vectors, starts, embeddings);
  if (options.normalize)
    for (int64_t i = 0; i < embeddings.size(0); ++i)
      normalize(embeddings.ptr<float>() + i * embeddings.size(1), embeddings.size(1));
  return embeddings;
}

}  // namespace fk
