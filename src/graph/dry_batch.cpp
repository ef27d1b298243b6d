#include "graph/dry_batch.h"

#include <algorithm>
#include <map>

#include "ops/registry.h"

namespace fk {
namespace {

// As many sequences and tokens as asked for; of an image, as many tokens as the model makes of it.
Workload workload_of(const Node& root, GraphPhase phase, const BatchSizes& sizes, DType activations) {
  Workload workload{.sequences = {}, .dtype = activations};
  int64_t sequences = sizes[SizeSymbol::kSequences], tokens = sizes[SizeSymbol::kTokens];
  int64_t decoding = phase == GraphPhase::kDecode  ? sequences
                     : phase == GraphPhase::kMixed ? sizes[SizeSymbol::kDecoding]
                                                   : 0;
  for (int64_t i = 0; i < decoding; ++i) workload.sequences.push_back({1, 2});
  int64_t prefilling = sequences - decoding, left = tokens - decoding;
  for (int64_t i = 0; i < prefilling; ++i) {
    int64_t length = i + 1 == prefilling ? left : left / prefilling;
    workload.sequences.push_back({length, 0});
    left -= length;
  }
  return root.info().possible(root.init(), workload);
}

}  // namespace

std::optional<size_t> logits_argument(const OperatorInfo& model) {
  for (size_t i = 0; i < model.args.size(); ++i)
    if (model.args[i].name == "logits_indices") return i;
  return std::nullopt;
}

View NoMemory::place(const TensorSpec& spec) {
  constexpr size_t kAlignment = 256;
  View view(reinterpret_cast<void*>(next_), spec);  // NOLINT(performance-no-int-to-ptr): it is never accessed
  next_ += std::max(spec.size_bytes() + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
  return view;
}

View DryBatch::vector_or_place(const TensorSpec& spec) {
  return spec.shape.rank() <= 1 ? vectors_.make(spec) : no_memory_.place(spec);
}

View DryBatch::add_leaf(const std::string& name, ValueKind kind, const View& view) {
  leaves_.add({name, kind, view});
  return view;
}

SequenceGroup DryBatch::make_group(const std::string& name, int64_t sequences, int64_t tokens, int64_t pages) {
  auto leaf = [&](const char* part, const Shape& shape) {
    return add_leaf("batch." + name + "." + part, ValueKind::kBatch, no_memory_.place({shape, DType::kI32}));
  };
  return {.num_sequences = sequences,
          .num_tokens = tokens,
          .cu_seqlens_q = leaf("cu_seqlens_q", {sequences + 1}),
          .cu_seqlens_k = leaf("cu_seqlens_k", {sequences + 1}),
          .seq_lens = leaf("seq_lens", {sequences}),
          .block_table = leaf("block_table", {sequences, pages}),
          .state_slots = leaf("state_slots", {sequences})};
}

DryBatch::DryBatch(Node& root, GraphPhase phase, const BatchSizes& sizes, DType activations) : root_(root) {
  Workload workload = workload_of(root, phase, sizes, activations);
  int64_t decoding = 0, pages = sizes[SizeSymbol::kPages];
  for (const Sequence& s : workload.sequences) decoding += s.context_len > 0 ? 1 : 0;
  metadata_.decode = make_group("decode", decoding, decoding, pages);
  metadata_.prefill =
      make_group("prefill", workload.num_sequences() - decoding, workload.num_tokens() - decoding, pages);
  metadata_.slot_mapping =
      add_leaf("batch.slot_mapping", ValueKind::kBatch, no_memory_.place({{workload.num_tokens()}, DType::kI64}));
  metadata_.page_size = sizes[SizeSymbol::kPageSize];

  StateRoom room{sizes[SizeSymbol::kBlocks], metadata_.page_size, sizes[SizeSymbol::kSlots]};
  for (const StateSpec& s : collect_states(root))
    states_.push_back(add_leaf(s.name, ValueKind::kState, no_memory_.place(state_tensor(s, room, activations))));
  std::map<std::string, View> weights;
  for (const ParamSpec& p : collect_params(root))
    weights.emplace(p.name, add_leaf(p.name, ValueKind::kParameter, vector_or_place(p.spec)));
  root.bind([&](const std::string& name) { return weights.at(name); });

  const std::optional<size_t> logits = logits_argument(root.info());
  for (const auto& input : root.info().inputs(root.init(), workload)) {
    args_.emplace_back();
    if (!input) continue;
    TensorSpec spec = input->spec;
    if (args_.size() - 1 == logits) spec.shape = {sizes[SizeSymbol::kLogits]};
    args_.back() = no_memory_.place(spec);
  }
  OutputSpecs outputs = root.outputs(args_);
  for (size_t i = 0; args_.size() < root.info().args.size(); ++i)
    args_.push_back(outputs.specs[i] ? OptView(vector_or_place(*outputs.specs[i])) : std::nullopt);
}

void DryBatch::run(CallObserver& observer) {
  ThreadPool pool(1);
  Context ctx{pool, arena_, &metadata_, states_, &observer};
  root_.call(ctx, args_);
}

}  // namespace fk
