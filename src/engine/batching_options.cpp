#include "engine/batching_options.h"

#include <algorithm>
#include <bit>

#include "core/device_runtime.h"
#include "core/error.h"
#include "engine/eagle_head.h"
#include "engine/rank_agreement.h"
#include "measure/machine_limits.h"

namespace fk {
namespace {

// What a served model on a CPU may take beside its weights, as vLLM has it; other programs run on the machine too.
constexpr double kMostCpuCacheBytes = 0x1p32;

int64_t pages_of(int64_t tokens, int64_t page_size) { return (tokens + page_size - 1) / page_size; }

// The window that all layers have, the widest where they differ; 0 where one of them sees everything.
void widen(const Node& node, int64_t& window, bool& any_sees_all) {
  bool has_keys =
      std::any_of(node.own_states().begin(), node.own_states().end(), [](const StateSpec& s) { return s.per_token(); });
  if (has_keys || node.info().name == "attention") {
    const FieldValue* field = find_field(node.init(), "sliding_window");
    const auto* own = field != nullptr ? std::get_if<int64_t>(field) : nullptr;
    if (own == nullptr || *own <= 0)
      any_sees_all = true;
    else
      window = std::max(window, *own);
  }
  for (const Node* child : node.children()) widen(*child, window, any_sees_all);
}

bool contains(const Node& node, std::string_view op) {
  return node.info().name == op || std::any_of(node.children().begin(), node.children().end(),
                                               [&](const Node* child) { return contains(*child, op); });
}

int64_t window_of_all_layers(const Node& root, const Model* draft) {
  int64_t window = 0;
  bool any_sees_all = false;
  widen(root, window, any_sees_all);
  // Recurrent states that have gone back go through tokens again whose pages have left the window.
  if (draft != nullptr && has_recurrent_states(*draft->root)) return 0;
  if (draft != nullptr) widen(*draft->root, window, any_sees_all);
  if (any_sees_all || window == 0) return 0;
  return draft != nullptr ? window + 1 : window;  // a draft is up to one token behind the target
}

// Activations of the largest step and the logits, roughly: the widest layers of known models keep about 64 times the
// hidden size for a token.
double activation_bytes(const Model& model, const BatchingOptions& options) {
  const ModelFacts& facts = model.config.facts;
  return 64.0 * static_cast<double>(facts.hidden_size * options.max_num_batched_tokens) *
             static_cast<double>(dtype_size(facts.dtype)) +
         8.0 * static_cast<double>(facts.vocab_size * options.max_num_seqs) *
             static_cast<double>(1 + options.speculative.num_speculative_tokens) +
         0x1p29;
}

// Bytes that the states may take. Weights are loaded, so what is free is without them.
double room_for_states(const Model& model, const BatchingOptions& options, const Model* draft) {
  if (model.device == kCpu) {
    auto available = static_cast<double>(memory_info().available_bytes);
    return available == 0 ? kMostCpuCacheBytes
                          : std::min(kMostCpuCacheBytes, available * options.gpu_memory_utilization);
  }
  DeviceRuntime& runtime = device_runtime(model.device);
  auto total = static_cast<double>(runtime.facts().memory_bytes), free = static_cast<double>(runtime.free_bytes());
  const double activations =
      activation_bytes(model, options) + (draft != nullptr ? activation_bytes(*draft, options) : 0);
  return total * options.gpu_memory_utilization - (total - free) - activations;
}

int64_t blocks_that_fit(const Model& model, const BatchingOptions& options, int64_t max_model_len, const Model* draft) {
  auto bytes_of = [&](const Model& one, int64_t blocks, int64_t slots) {
    return StatePool::size_bytes(collect_states(*one.root), one.config.facts.dtype,
                                 {blocks, options.block_size, slots});
  };
  auto bytes = [&](int64_t blocks, int64_t slots) {
    return bytes_of(model, blocks, slots) + (draft != nullptr ? bytes_of(*draft, blocks, 2 * slots) : 0);
  };
  const double per_block = bytes(1, 0);
  const int64_t most = options.max_num_seqs * pages_of(max_model_len, options.block_size);
  if (per_block == 0) return most;
  const double room = room_for_states(model, options, draft) - bytes(0, options.max_num_seqs);
  if (room < per_block)
    throw Error(
        "There is no memory left for the KV cache of {}: weights, activations and the states of {} sequences take it "
        "all; raise --gpu-memory-utilization, or lower --max-num-seqs or --max-num-batched-tokens.",
        model.name, options.max_num_seqs);
  return std::min(most, static_cast<int64_t>(std::min(room / per_block, 0x1p30)));
}

void check_tree_allows(const Node& root, const std::string& name, const ModelConfig& config,
                       const BatchingOptions& options, Device device) {
  if (const int64_t context = config.facts.max_position_embeddings; options.max_model_len > context)
    throw Error("{} has a context of {} tokens, and --max-model-len asks for {}; ask for fewer.", name, context,
                options.max_model_len);
  if (options.batch_invariant && device != kCpu)
    throw UsageError("--batch-invariant fixes the order of sums on the CPU only; leave it out or use --device cpu.");
  if (options.batch_invariant && has_recurrent_states(root))
    throw UsageError(
        "{} has recurrent states, whose sums depend on how a prompt is cut into chunks; leave --batch-invariant out.",
        name);
  if (options.batch_invariant && contains(root, "mla_attention"))
    throw UsageError(
        "{} attends to the first chunk of a prompt in another form than to later ones; leave --batch-invariant out.",
        name);
  if (options.speculative.num_speculative_tokens > 0 && has_recurrent_states(root))
    throw UsageError(
        "{} has recurrent states, which cannot go back behind a guess that was wrong; leave --speculative-config out.",
        name);
}

void check_draft_facts(const std::string& draft, const ModelFacts& own, const std::string& target,
                       const ModelFacts& wanted, const BatchingOptions& options) {
  if (own.vocab_size != wanted.vocab_size)
    throw UsageError(
        "--speculative-config: the vocabulary of {} has {} tokens and that of {} has {}; a draft model needs the same "
        "one.",
        draft, own.vocab_size, target, wanted.vocab_size);
  const int64_t context = options.max_model_len > 0 ? options.max_model_len : wanted.max_position_embeddings;
  if (own.max_position_embeddings < context)
    throw UsageError(
        "--speculative-config: {} has a context of {} tokens, and a sequence may have {}; allow fewer "
        "(--max-model-len, --max-tokens) or take another draft model.",
        draft, own.max_position_embeddings, context);
}

}  // namespace

bool has_recurrent_states(const Node& root) {
  const std::vector<StateSpec> states = collect_states(root);
  return std::any_of(states.begin(), states.end(), [](const StateSpec& s) { return !s.per_token(); });
}

void check_batching_options(const BatchingOptions& o) {
  auto from_one = [](int64_t value, std::string_view name, int64_t most) {
    if (value < 1 || value > most) throw UsageError("{} must lie between 1 and {}, not be {}.", name, most, value);
  };
  from_one(o.max_num_seqs, "--max-num-seqs", 65536);
  from_one(o.max_num_batched_tokens, "--max-num-batched-tokens", int64_t{1} << 24);
  from_one(o.block_size, "--block-size", 4096);
  if (!std::has_single_bit(static_cast<uint64_t>(o.block_size)))
    throw UsageError("--block-size must be a power of two, as 16, not {}.", o.block_size);
  if (o.max_model_len < 0) throw UsageError("--max-model-len must be 0 or more, not {}.", o.max_model_len);
  if (o.num_blocks < 0 || o.num_blocks > INT32_MAX)
    throw UsageError("--num-blocks must lie between 0 and {}, not be {}.", INT32_MAX, o.num_blocks);
  if (!(o.gpu_memory_utilization > 0 && o.gpu_memory_utilization <= 1))
    throw UsageError("--gpu-memory-utilization must be above 0 and at most 1, not {}.", o.gpu_memory_utilization);
  check_speculative_options(o.speculative);
  if (o.max_waiting < 0) throw UsageError("--max-waiting must be 0 or more, not {}.", o.max_waiting);
}

void check_model_allows(const ModelSource& source, const BatchingOptions& options, Device device) {
  check_batching_options(options);
  check_tree_allows(*build_model(source.config, {}), source.name, source.config, options, device);
}

void check_draft_allows(const ModelSource& draft, const ModelSource& target, const BatchingOptions& options) {
  const bool is_head = draft.config.facts.task == Task::kDraftHead;
  if (options.speculative.has_head() && !is_head)
    throw UsageError(
        "--speculative-config: {} is {}, and the method \"eagle3\" needs an EAGLE-3 head; leave method out.",
        draft.name, task_info(draft.config.facts.task).words);
  if (!options.speculative.has_head() && is_head)
    throw UsageError("--speculative-config: {} is an EAGLE-3 head; add \"method\": \"eagle3\".", draft.name);
  if (!is_head) draft.config.require_task(Task::kCausalLM, draft.name, "--speculative-config");
  check_draft_facts(draft.name, draft.config.facts, target.name, target.config.facts, options);
  if (!is_head) return;
  const FieldValue* width = find_field(draft.config.init, "target_hidden_size");
  FK_CHECK(width != nullptr);
  if (std::get<int64_t>(*width) != target.config.facts.hidden_size)
    throw UsageError(
        "--speculative-config: {} guesses from hidden states of {} elements, and those of {} have {}; take the head of "
        "this model.",
        draft.name, std::get<int64_t>(*width), target.name, target.config.facts.hidden_size);
  wanted_hidden_states(draft, target);
}

EngineSizes engine_sizes(const Model& model, const BatchingOptions& options, const Model* draft) {
  check_batching_options(options);
  check_tree_allows(*model.root, model.name, model.config, options, model.device);
  FK_CHECK((draft != nullptr) == options.speculative.has_draft_model());
  if (draft != nullptr) check_draft_facts(draft->name, draft->config.facts, model.name, model.config.facts, options);
  const int64_t context = model.config.facts.max_position_embeddings;
  EngineSizes sizes;
  sizes.limits = {.max_sequences = options.max_num_seqs,
                  .max_tokens = options.max_num_batched_tokens,
                  .max_context = options.max_model_len > 0 ? options.max_model_len : context,
                  .page_size = options.block_size};
  sizes.limits.max_drafts = options.speculative.num_speculative_tokens;
  // Ranks plan the same steps, so they need the same number of blocks, whatever memory each has free.
  sizes.limits.blocks =
      options.num_blocks > 0
          ? options.num_blocks
          : least_of_all_ranks(blocks_that_fit(model, options, sizes.limits.max_context, draft), model);
  sizes.scheduler = {
      .max_batched_tokens = sizes.limits.max_tokens,
      .max_sequences = sizes.limits.max_sequences,
      .max_context = sizes.limits.max_context,
      .page_size = sizes.limits.page_size,
      .blocks = sizes.limits.blocks,
      .prefix_cache = options.enable_prefix_caching && !(draft != nullptr && has_recurrent_states(*draft->root)),
      .sliding_window = window_of_all_layers(*model.root, draft),
      .has_slots = has_recurrent_states(*model.root),
      .speculative = options.speculative,
      .max_prompt_logits = sizes.limits.max_prompt_logits};
  return sizes;
}

}  // namespace fk
