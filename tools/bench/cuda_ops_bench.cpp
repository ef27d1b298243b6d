// Times every L1 operator's CUDA implementations in the sizes of Llama 3 8B, those on experts in the sizes of Mixtral
// 8x7B and Qwen3 30B-A3B, and latent attention in those of DeepSeek V3.2: cuda_ops_bench [operator|number of tokens]...
//
// Calls rotate over more memory than the L2 holds and are recorded in a graph, so that only the device's work is timed.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <vector>

#include "core/device_runtime.h"
#include "core/error.h"
#include "ops/l1/embedding.h"
#include "ops/l1/flash_attn_decode.h"
#include "ops/l1/flash_attn_prefill.h"
#include "ops/l1/flash_mla_sparse_fwd.h"
#include "ops/l1/flash_mla_with_kvcache.h"
#include "ops/l1/gelu_and_mul.h"
#include "ops/l1/linear.h"
#include "ops/l1/mla_prefill.h"
#include "ops/l1/moe_align.h"
#include "ops/l1/moe_grouped_gemm.h"
#include "ops/l1/moe_sum.h"
#include "ops/l1/paged_mqa_logits.h"
#include "ops/l1/rms_norm.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l1/store_kvcache.h"
#include "ops/l1/top_k_per_row.h"
#include "ops/l1/topk_softmax.h"
#include "ops/materialize.h"
#include "ops/registry.h"

namespace {

using namespace fk;

constexpr Device kCuda{DeviceKind::kCuda, 0};
constexpr int64_t kD = 4096, kF = 14336, kV = 128256, kH = 32, kK = 8, kDh = 128, kContext = 512;
constexpr size_t kRotated = size_t{256} << 20;  // bytes, four times the L2
constexpr int64_t kMostCopies = 2048;
constexpr int64_t kLeastCalls = 64;  // in one graph, so that launch overhead does not count
constexpr double kMostMs = 100;      // of one run over all copies

struct Timed {
  std::string_view op;
  Fields init;
  Workload workload;
};

// The calls of a step of `tokens` tokens: decoding sequences up to 32, else one prefilling sequence.
std::vector<Timed> operators(int64_t tokens) {
  Workload rows = Workload::tokens(tokens), batch = rows;
  if (tokens <= 32) batch.sequences.assign(static_cast<size_t>(tokens), {1, kContext});
  auto wide = [&](int64_t width) { return Workload::rows(tokens, width); };
  Workload residual = Workload::tokens(tokens, true), heads = batch;
  heads.width = kH;
  heads.kv_heads = kK;
  heads.optional_inputs = true;
  double scale = 0.08838834764;
  std::vector<Timed> list{
      {"embedding", to_fields(Embedding::Init{.num_embeddings = kV, .embedding_dim = kD}), rows},
      {"rms_norm", to_fields(RMSNorm::Init{.hidden_size = kD}), residual},
      {"rotary_emb", to_fields(RotaryEmbedding::Init{.head_size = kDh, .rotary_dim = kDh, .base = 500000}), heads},
      {"store_kvcache", to_fields(StoreKVCache::Init{.num_kv_heads = kK, .head_size = kDh}), batch},
      {"silu_and_mul", {}, wide(kF)},
      {"gelu_and_mul", to_fields(GeluAndMul::Init{.approximate = "tanh"}), wide(kF)},
      {"index_select", {}, wide(kD)},
      {"linear", to_fields(Linear::Init{.in_features = kD, .out_features = kD + 2 * kK * kDh}), rows},
      {"linear", to_fields(Linear::Init{.in_features = kD, .out_features = kD}), rows},
      {"linear", to_fields(Linear::Init{.in_features = kD, .out_features = 2 * kF}), rows},
      {"linear", to_fields(Linear::Init{.in_features = kF, .out_features = kD}), rows},
  };
  if (tokens <= 32) {
    for (std::string_view op : {"argmax", "sample", "softmax"}) list.push_back({op, {}, wide(kV)});
    list.push_back({"flash_attn_decode",
                    to_fields(FlashAttnDecode::Init{
                        .num_heads = kH, .num_kv_heads = kK, .head_size = kDh, .softmax_scale = scale}),
                    batch});
  } else {
    list.push_back({"softmax", {}, wide(kD)});
    list.push_back({"flash_attn_prefill",
                    to_fields(FlashAttnPrefill::Init{
                        .num_heads = kH, .num_kv_heads = kK, .head_size = kDh, .softmax_scale = scale}),
                    batch});
  }
  return list;
}

std::vector<Timed> decode_attention(int64_t sequences, int64_t keys) {
  Workload batch = Workload::tokens(sequences);
  batch.sequences.assign(static_cast<size_t>(sequences), {1, keys});
  return {{"flash_attn_decode",
           to_fields(FlashAttnDecode::Init{
               .num_heads = kH, .num_kv_heads = kK, .head_size = kDh, .softmax_scale = 0.08838834764}),
           batch}};
}

// The calls of the experts of Mixtral 8x7B and of Qwen3 30B-A3B.
std::vector<Timed> expert_operators(int64_t tokens) {
  struct Experts {
    int64_t number, top_k, hidden, features;
  };
  Workload rows = Workload::tokens(tokens);
  std::vector<Timed> list;
  for (const Experts& e : {Experts{8, 2, kD, kF}, Experts{128, 8, 2048, 768}}) {
    list.push_back({"topk_softmax",
                    to_fields(TopkSoftmax::Init{.num_experts = e.number, .top_k = e.top_k, .renormalize = true}),
                    rows});
    list.push_back({"moe_align", to_fields(MoeAlign::Init{.num_experts = e.number, .top_k = e.top_k}), rows});
    list.push_back({"moe_grouped_gemm",
                    to_fields(MoeGroupedGemm::Init{.num_experts = e.number,
                                                   .top_k = e.top_k,
                                                   .in_features = e.hidden,
                                                   .out_features = 2 * e.features,
                                                   .output_sizes = {e.features, e.features},
                                                   .input_per_token = true}),
                    rows});
    list.push_back(
        {"moe_grouped_gemm",
         to_fields(MoeGroupedGemm::Init{
             .num_experts = e.number, .top_k = e.top_k, .in_features = e.features, .out_features = e.hidden}),
         rows});
    list.push_back({"moe_sum", to_fields(MoeSum::Init{.top_k = e.top_k}), Workload::rows(tokens, e.hidden)});
  }
  return list;
}

std::vector<Timed> latent_prefill(int64_t tokens) {
  return {{"mla_prefill",
           to_fields(MLAPrefill::Init{.num_heads = 128,
                                      .qk_nope_head_dim = 128,
                                      .qk_rope_head_dim = 64,
                                      .v_head_dim = 128,
                                      .softmax_scale = 0.072}),
           Workload::batch({{tokens, 0}})}};
}

// Dense attention to `keys` latents, and what sparse attention has instead: logits of all keys, the choice of 2048 of
// them, attention to these.
std::vector<Timed> latent_attention(int64_t tokens, int64_t keys) {
  const Workload batch = Workload::batch({{tokens, keys - tokens}}, tokens > 1);
  const int64_t H = 128, L = 512, R = 64, chosen = 2048;
  return {
      {"flash_mla_with_kvcache",
       to_fields(
           FlashMLAWithKVCache::Init{.num_heads = H, .kv_lora_rank = L, .qk_rope_head_dim = R, .softmax_scale = 0.072}),
       batch},
      {"paged_mqa_logits", to_fields(PagedMQALogits::Init{.num_heads = 64, .head_dim = 128, .scale = 0.011}), batch},
      {"top_k_per_row", to_fields(TopKPerRow::Init{.top_k = chosen}), Workload::batch({{tokens, keys - tokens}})},
      {"flash_mla_sparse_fwd",
       to_fields(FlashMLASparseFwd::Init{
           .num_heads = H, .kv_lora_rank = L, .qk_rope_head_dim = R, .top_k = chosen, .softmax_scale = 0.072}),
       batch}};
}

// Consecutive copies of a tensor, all with the same indices or with random numbers from the device.
class Rotation {
 public:
  Rotation(const TensorSpec& spec, int64_t copies)
      : spec_(spec),
        pitch_((spec.size_bytes() + 255) / 256 * 256),
        memory_(std::max<size_t>(pitch_, 256) * static_cast<size_t>(copies), kCuda) {}

  View at(int64_t copy) const { return View(memory_.data() + pitch_ * static_cast<size_t>(copy), spec_, kCuda); }
  size_t pitch() const { return pitch_; }

  void fill_floats(uint64_t key, float scale) const {
    auto elements = static_cast<int64_t>(memory_.size() / dtype_size(spec_.dtype));
    device_runtime(kCuda).fill_dummy(View(memory_.data(), {elements}, spec_.dtype, kCuda), key, 0, scale, 0);
  }
  void fill_all(const Tensor& host, int64_t copies) const {
    for (int64_t i = 0; i < copies; ++i) copy_between(host, at(i));
  }

 private:
  TensorSpec spec_;
  size_t pitch_;
  Buffer memory_;
};

bool made_on_device(const InputSpec& spec) {
  return dtype_is_float(spec.spec.dtype) && spec.generator.kind == Generator::Kind::kNormal;
}

class OperatorBench {
 public:
  OperatorBench(const Timed& timed, const ImplementationInfo& implementation)
      : info_(Registry::instance().at(timed.op)), batch_(timed.workload, 1) {
    BuildOptions options;
    options.device = kCuda;
    options.only_operator = info_.name;
    options.only_implementation = implementation.name;
    node_ = info_.build(timed.init.empty() ? info_.default_init() : timed.init, options);
    Inputs inputs = info_.inputs(node_->init(), timed.workload);
    size_t bytes = 1;
    std::vector<OptView> shapes;
    for (const auto& input : inputs) {
      if (input) bytes += input->spec.size_bytes();
      shapes.push_back(input ? OptView(View(nullptr, input->spec, kCuda)) : std::nullopt);
    }
    OutputSpecs outputs = node_->outputs(shapes);
    size_t param_bytes = 0;
    for (const ParamSpec& p : node_->own_params()) param_bytes += p.spec.size_bytes();
    for (const auto& output : outputs.specs)
      if (output) bytes += output->size_bytes();
    // Only some rows of a table are read, so its size does not matter; small weights stay in the L2.
    if (timed.op == "embedding") param_bytes = 0;
    copies_ = std::clamp<int64_t>(static_cast<int64_t>(kRotated / std::max(bytes, param_bytes)), 2, kMostCopies);
    weight_copies_ = param_bytes > (size_t{1} << 20) ? std::min<int64_t>(copies_, 8) : 1;

    for (size_t i = 0; i < info_.args.size(); ++i) {
      const bool given = i < inputs.size();
      std::optional<TensorSpec> spec =
          given ? (inputs[i] ? std::optional(inputs[i]->spec) : std::nullopt) : outputs.specs[i - inputs.size()];
      args_.emplace_back();
      if (!spec) continue;
      args_.back().emplace(*spec, copies_);
      if (!given) continue;
      if (made_on_device(*inputs[i])) {
        args_.back()->fill_floats(i, static_cast<float>(2 * inputs[i]->generator.b));
      } else {
        Tensor host(*spec);
        fill(host, inputs[i]->generator, 1, info_.args[i].name, batch_);
        args_.back()->fill_all(host, copies_);
      }
    }
    for (const ParamSpec& p : node_->own_params()) {
      params_.emplace_back(p.spec, weight_copies_);
      params_.back().fill_floats(stream_seed_++, 0.02f);
    }
  }

  std::string refusal() const { return node_->refusal(views(0)); }

  // Seconds of one call, the best of several runs over all copies.
  double best_s() {
    DeviceRuntime& runtime = device_runtime(kCuda);
    auto start = runtime.make_event(), stop = runtime.make_event();
    run(2);  // measures and allocates
    start->record();
    run(2);
    stop->record();
    // Slow calls need fewer repetitions.
    const double call_ms = std::max(stop->elapsed_ms_since(*start) / 2, 1e-3);
    const int64_t calls =
        std::clamp<int64_t>(static_cast<int64_t>(kMostMs / call_ms), 2, std::max(copies_, kLeastCalls));
    runtime.begin_recording();
    std::unique_ptr<RecordedWork> work;
    try {
      run(calls);
      work = runtime.end_recording();
    } catch (...) {
      runtime.abandon_recording();
      throw;
    }
    double best_ms = 1e30;
    for (int i = 0; i < 6; ++i) {
      start->record();
      work->launch();
      stop->record();
      if (double ms = stop->elapsed_ms_since(*start); i > 0) best_ms = std::min(best_ms, ms);
    }
    return best_ms * 1e-3 / static_cast<double>(calls);
  }

 private:
  std::vector<OptView> views(int64_t copy) const {
    std::vector<OptView> list;
    for (const auto& arg : args_) list.push_back(arg ? OptView(arg->at(copy)) : std::nullopt);
    return list;
  }

  void run(int64_t calls) {
    Context ctx{
        .pool = pool_, .arena = arena_, .attention = &batch_.attention(), .stream = device_runtime(kCuda).stream()};
    for (int64_t i = 0; i < calls; ++i) {
      arena_.reset();
      if (i == 0 || weight_copies_ > 1) bind(i % weight_copies_);
      node_->call(ctx, views(i % copies_));
    }
  }

  void bind(int64_t copy) {
    node_->bind([&](const std::string& name) {
      size_t i = 0;
      while (node_->own_params()[i].name != name) ++i;
      return params_[i].at(copy);
    });
  }

  const OperatorInfo& info_;
  BatchMetadata batch_;
  std::unique_ptr<Node> node_;
  std::vector<std::optional<Rotation>> args_;
  std::vector<Rotation> params_;
  int64_t copies_ = 0, weight_copies_ = 1;
  uint64_t stream_seed_ = 100;
  ThreadPool pool_{1};
  Arena arena_{kCuda};
};

// The `most` best ranked implementations that support the call.
void print_times(const Timed& timed, int64_t tokens, const DeviceSpeeds& speeds, int most = 1000) {
  const OperatorInfo& info = Registry::instance().at(timed.op);
  Fields init = timed.init.empty() ? info.default_init() : timed.init;
  Cost cost = info.cost(init, timed.workload);
  double floor_s = std::max({cost.bytes() / (speeds.read_gbps * 1e9), cost.matrix_flops / (speeds.bf16_tflops * 1e12),
                             cost.vector_flops / (speeds.f32_tflops * 1e12)});
  for (const ImplementationInfo& implementation : info.implementations) {
    if (implementation.device != DeviceKind::kCuda) continue;
    if (implementation.unavailable != nullptr && !implementation.unavailable().empty()) continue;
    if (most == 0) break;
    OperatorBench bench(timed, implementation);
    if (!bench.refusal().empty()) continue;
    --most;
    double s = bench.best_s();
    bool matrix = cost.matrix_flops / (speeds.bf16_tflops * 1e12) >= floor_s;
    fmt::print("{:<20}{:<26}{:>6}{:>11.2f}{:>10.0f} {:<8}{:>6.0f} %\n", info.name, implementation.name, tokens, s * 1e6,
               (matrix ? cost.matrix_flops * 1e-12 : cost.bytes() * 1e-9) / s, matrix ? "TFLOP/s" : "GB/s",
               100 * floor_s / s);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    DeviceRuntime& runtime = device_runtime(kCuda);
    DeviceSpeeds speeds = runtime.measure();
    fmt::print("{}: reads {:.0f} GB/s, copies {:.0f} GB/s, multiplies bf16 at {:.0f} TFLOP/s\n", runtime.facts().name,
               speeds.read_gbps, speeds.copy_gbps, speeds.bf16_tflops);
    fmt::print("{:<20}{:<26}{:>6}{:>11}{:>10} {:<8}{:>8}\n", "operator", "implementation", "tokens", "us", "rate", "",
               "floor");
    std::vector<std::string> names, numbers;
    for (int i = 1; i < argc; ++i) (std::isdigit(argv[i][0]) != 0 ? numbers : names).emplace_back(argv[i]);
    auto asked_for = [&](std::string_view op) { return names.empty() || std::ranges::count(names, op) > 0; };
    auto asked_for_tokens = [&](int64_t tokens) {
      return numbers.empty() || std::ranges::count(numbers, std::to_string(tokens)) > 0;
    };
    for (int64_t tokens : {1, 8, 32, 256, 2048})
      for (const Timed& timed : operators(tokens))
        if (asked_for(timed.op) && asked_for_tokens(tokens)) print_times(timed, tokens, speeds);
    // One element at a time, many rows would take minutes.
    for (int64_t tokens : {1, 8, 32, 128, 2048})
      for (const Timed& timed : expert_operators(tokens))
        if (asked_for(timed.op) && asked_for_tokens(tokens)) print_times(timed, tokens, speeds, 1);
    // Many sequences, and long ones.
    for (auto [sequences, keys] : std::initializer_list<std::pair<int64_t, int64_t>>{{1, 32768},
                                                                                     {4, 32768},
                                                                                     {8, 8192},
                                                                                     {16, 512},
                                                                                     {32, 4096},
                                                                                     {64, 512},
                                                                                     {128, 512},
                                                                                     {256, 512},
                                                                                     {256, 1024},
                                                                                     {512, 512}})
      for (const Timed& timed : decode_attention(sequences, keys))
        if (asked_for(timed.op) && asked_for_tokens(sequences)) {
          fmt::print("{} keys:\n", keys);
          print_times(timed, sequences, speeds, 1);
        }
    for (int64_t tokens : {2048, 8192})
      for (const Timed& timed : latent_prefill(tokens))
        if (asked_for(timed.op)) print_times(timed, tokens, speeds, 1);
    for (auto [tokens, keys] : std::initializer_list<std::pair<int64_t, int64_t>>{{1, 4096}, {1, 32768}, {512, 32768}})
      for (const Timed& timed : latent_attention(tokens, keys))
        if (asked_for(timed.op)) {
          fmt::print("{} keys:\n", keys);
          print_times(timed, tokens, speeds, 1);
        }
    // Its work grows with the square of the tokens: short and long prompts are different calls. Row by row, the long
    // one would take minutes.
    for (int64_t tokens : {512, 8192})
      for (const Timed& timed : operators(tokens))
        if (timed.op == "flash_attn_prefill" && asked_for(timed.op) && asked_for_tokens(tokens))
          print_times(timed, tokens, speeds, 2);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
