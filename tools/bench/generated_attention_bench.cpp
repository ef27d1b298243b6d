// Times generated attention beside the hand-written kernel of this CPU: generated_attention_bench [threads] [dtype]
// [library]
//
// Both are called in turn: the fastest call of each, and the median of the ratios of neighbouring calls. With a
// library, kernels come from there: so a generated source can be edited, compiled and timed again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/plan/generated_kernel.h"
#include "core/cpu_features.h"
#include "measure/timer.h"
#include "ops/materialize.h"

namespace {

using namespace fk;

constexpr double kSecondsPerLine = 1.0;

struct Scenario {
  std::string_view op;
  int64_t num_heads, num_kv_heads, head_size;
  Sequence sequence;
};

const Scenario kScenarios[] = {
    {"flash_attn_decode", 32, 8, 64, {1, 511}},     // Llama 3.2 1B
    {"flash_attn_decode", 32, 8, 64, {1, 4095}},    //
    {"flash_attn_decode", 16, 8, 128, {1, 511}},    // Qwen3 0.6B
    {"flash_attn_decode", 16, 8, 128, {1, 4095}},   //
    {"flash_attn_prefill", 32, 8, 64, {512, 0}},    //
    {"flash_attn_prefill", 32, 8, 64, {2048, 0}},   //
    {"flash_attn_prefill", 16, 8, 128, {512, 0}},   //
    {"flash_attn_prefill", 16, 8, 128, {2048, 0}},  //
};

Fields init_of(const OperatorInfo& info, const Scenario& scenario) {
  Fields init = info.default_init();
  for (Field& f : init) {
    if (f.name == "num_heads") f.value = scenario.num_heads;
    if (f.name == "num_kv_heads") f.value = scenario.num_kv_heads;
    if (f.name == "head_size") f.value = scenario.head_size;
    if (f.name == "softmax_scale") f.value = 0.1;
  }
  return init;
}

// The call as a graph with sizes of any batch.
GraphBody graph_of(const OperatorInfo& info, const Fields& init, const Inputs& inputs) {
  auto symbol = [](SizeSymbol s, int64_t more = 0) {
    SymbolicSize size(more);
    size.factors[static_cast<size_t>(s)] = 1;
    return size;
  };
  const SizeSymbol rows = info.name == "flash_attn_decode" ? SizeSymbol::kSequences : SizeSymbol::kTokens;
  GraphBody flat;
  GraphNode node{.op = std::string(info.name), .path = "attn", .level = 1, .init = init};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string_view name = info.args[i].name;
    const Shape& shape = inputs[i]->spec.shape;
    std::vector<SymbolicSize> sizes;
    for (int d = 0; d < shape.rank(); ++d) sizes.emplace_back(shape[d]);
    if (shape.rank() == 4) sizes[0] = symbol(SizeSymbol::kBlocks), sizes[1] = symbol(SizeSymbol::kPageSize);
    if (name.starts_with("cu_seqlens")) sizes[0] = symbol(SizeSymbol::kSequences, 1);
    if (name == "cache_seqlens") sizes[0] = symbol(SizeSymbol::kSequences);
    if (name == "block_table") sizes = {symbol(SizeSymbol::kSequences), symbol(SizeSymbol::kPages)};
    if (name == "q") sizes[0] = symbol(rows);
    const auto id = static_cast<ValueId>(flat.values.size());
    flat.inputs.push_back(id);
    node.inputs.push_back({std::string(name), id});
    flat.values.push_back({ValueKind::kArgument, std::string(name), inputs[i]->spec.dtype, sizes});
  }
  const auto out = static_cast<ValueId>(flat.values.size());
  node.outputs.push_back({"out", out});
  flat.outputs.push_back({"out", out});
  flat.values.push_back({ValueKind::kResult, "", flat.values[0].dtype, flat.values[0].shape});
  flat.nodes.push_back(std::move(node));
  return flat;
}

// Random numbers for the start of a tensor, repeated to its end.
void fill_start(const View& view, const Generator& generator, const BatchMetadata& batch) {
  constexpr int64_t kDrawn = 100'003;
  int64_t n = view.numel(), drawn = dtype_is_float(view.dtype()) ? std::min(n, kDrawn) : n;
  fill(drawn < n ? View(view.data(), {drawn}, view.dtype()) : view, generator, 1, "", batch);
  auto* bytes = static_cast<std::byte*>(view.data());
  auto size = static_cast<int64_t>(dtype_size(view.dtype()));
  for (int64_t i = drawn; i < n; i += drawn)
    std::memcpy(bytes + i * size, bytes, static_cast<size_t>(std::min(drawn, n - i) * size));
}

double fastest(const std::vector<double>& all) { return *std::min_element(all.begin(), all.end()); }
double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

void measure(const Scenario& scenario, DType dtype, ThreadPool& pool, const std::string& library) {
  const OperatorInfo& info = Registry::instance().at(scenario.op);
  const Fields init = init_of(info, scenario);
  Workload workload = Workload::batch({scenario.sequence}, true);
  workload.dtype = dtype;
  const Inputs inputs = info.inputs(init, workload);
  const GraphBody flat = graph_of(info, init, inputs);
  const std::vector<FoundRegion> found = find_regions(flat);
  if (found.empty()) {
    fmt::print("{} has no generated kernel\n", info.name);
    return;
  }
  const std::shared_ptr<RegionKernel> kernel = library.empty()
                                                   ? compile_regions({&found[0]}, flat).kernels[0]
                                                   : load_region(library, found[0], flat, DeviceKind::kCpu);
  const std::unique_ptr<Node> node = info.build(init, {});
  BatchMetadata batch(workload, 1);
  std::vector<Tensor> given;
  std::vector<OptView> args;
  std::vector<View> views;
  for (const auto& input : inputs) {
    given.emplace_back(input->spec);
    fill_start(given.back(), input->generator, batch);
    args.emplace_back(given.back());
    views.push_back(given.back());
  }
  Tensor out(*node->outputs(args).specs[0]), generated(*node->outputs(args).specs[0]);
  args.push_back(out.view());
  const View result = generated.view();
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = nullptr, .states = {}};
  std::vector<double> by_hand, by_text, ratios;
  for (Stopwatch all; all.elapsed_s() < kSecondsPerLine || ratios.size() < 5;) {
    arena.reset();
    Stopwatch first;
    node->call(ctx, args);
    by_hand.push_back(first.elapsed_s());
    arena.reset();
    Stopwatch second;
    kernel->run(ctx, views, {&result, 1});
    by_text.push_back(second.elapsed_s());
    ratios.push_back(by_hand.back() / by_text.back());
  }
  double error = 0;
  for (int64_t i = 0; i < out.view().size(0); ++i)
    for (int64_t h = 0; h < out.view().size(1); ++h)
      for (int64_t d = 0; d < out.view().size(2); ++d) {
        const double difference = std::abs(get(out.view(), i, h, d) - get(result, i, h, d));
        error = std::max(error, difference == difference ? difference : INFINITY);  // a NaN is no agreement
      }
  fmt::print("{:<19}{} H={:<3} K={:<2} Dh={:<4}{:>5} new, {:>4} before {:9.3f} ms by hand {:9.3f} ms generated {:.2f}x"
             " (largest difference {:.1e})\n",
             info.name, dtype_name(dtype), scenario.num_heads, scenario.num_kv_heads, scenario.head_size,
             scenario.sequence.query_len, scenario.sequence.context_len, fastest(by_hand) * 1e3,
             fastest(by_text) * 1e3, median(ratios), error);
}

}  // namespace

int main(int argc, char** argv) {
  cpu_features();
  ThreadPool pool(argc > 1 ? std::max(1, std::atoi(argv[1])) : usable_cores());
  const std::string dtype = argc > 2 ? argv[2] : "bf16";
  for (const Scenario& scenario : kScenarios)
    measure(scenario, dtype == "f32" ? DType::kF32 : dtype == "f16" ? DType::kF16 : DType::kBF16, pool,
            argc > 3 ? argv[3] : "");
}
