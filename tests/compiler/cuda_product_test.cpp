// Generated CUDA kernels with products, without a GPU: which calls are joined, that nvcc compiles them, and that every
// cut computes what the definitions say when the threads of a block run on the CPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "candidate/toolchain.h"
#include "compiler/codegen/cuda_product.h"
#include "compiler/plan/find_products.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/region_memory.h"
#include "compiler/plan/region_trial.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/search_products.h"
#include "core/json.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "models/resolve.h"
#include "tests/compiler/cuda_emulation.h"
#include "tests/compiler/nvcc_check.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Blocks that have hand-written kernels on CUDA, which stay calls there.
bool is_fused_on_cuda(const GraphNode& node, const std::string&) {
  return node.op == "llama_mlp" || node.op == "gemma_mlp" || node.op == "fused_experts";
}

// The products of one token of a model.
struct ModelProducts {
  explicit ModelProducts(const std::string& name, bool fused = false, std::optional<DType> dtype = {}) {
    ModelSource source = resolve_model(name);
    if (dtype) source.config.set_dtype(*dtype);
    std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
    Graph graph = trace_graph(*root, name, GraphPhase::kDecode, source.config.facts.dtype);
    flat = fused ? flatten(graph, 1, is_fused_on_cuda) : flatten(graph);
    find();
  }
  void find() {
    regions = find_regions(flat, nullptr, DeviceKind::kCuda);
    products = find_products(flat, regions);
    drafts.clear();
    for (const FoundProducts& p : products) drafts.push_back(draft_of(p.region, flat, DeviceKind::kCuda));
  }
  std::set<std::string> calls() const {
    std::set<std::string> all;
    for (const RegionDraft& d : drafts) all.insert(d.calls);
    return all;
  }
  // The first with this text among its calls.
  const FoundProducts& with(const std::string& calls) const {
    for (size_t i = 0; i < products.size(); ++i)
      if (drafts[i].calls == calls) return products[i];
    throw std::runtime_error("no products " + calls);
  }
  // Different kernels.
  std::vector<RegionText> texts(std::set<std::string>& seen) const {
    std::vector<RegionText> texts;
    for (size_t i = 0; i < products.size(); ++i) {
      if (seen.insert(drafts[i].key).second) texts.push_back(text_of(drafts[i], products[i].region));
    }
    return texts;
  }

  GraphBody flat;
  std::vector<FoundRegion> regions;
  std::vector<FoundProducts> products;
  std::vector<RegionDraft> drafts;
};

std::string product_source_file(const std::string& source, const std::string& suffix) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fk_cuda_products";
  std::filesystem::create_directories(folder);
  std::filesystem::path path = folder / (Fingerprint().add(source).hex() + suffix);
  write_whole(path.string(), source);
  return path.string();
}

// The different products of these models, compiled together.
void expect_right_products(const std::vector<std::string>& models) {
  std::vector<std::unique_ptr<ModelProducts>> all;
  std::vector<RegionText> texts;
  std::set<std::string> seen;
  for (const std::string& model : models) {
    all.push_back(std::make_unique<ModelProducts>(model));
    for (RegionText& text : all.back()->texts(seen)) texts.push_back(std::move(text));
  }
  EXPECT_GT(texts.size(), 5u);
  std::string source = cuda_region_source(texts, std::string(kEmulationPrelude));
  CompileResult built =
      compile_candidate({nullptr, product_source_file(source, ".cpp")},
                        {.cxxflags = {"-O0", "-Wno-unknown-pragmas"}, .limit_ms = 600'000, .without_operator = true});
  ASSERT_FALSE(built.failure) << built.failure->sentence << "\n" << built.log << "\n" << source;
  void* library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  seen.clear();
  for (size_t m = 0; m < models.size(); ++m) {
    SCOPED_TRACE(models[m]);
    const ModelProducts& made = *all[m];
    for (size_t i = 0; i < made.products.size(); ++i) {
      if (!seen.insert(made.drafts[i].key).second) continue;
      auto* launcher = reinterpret_cast<CudaRegionFunction>(dlsym(library, ("region_" + made.drafts[i].key).c_str()));
      ASSERT_NE(launcher, nullptr);
      for (bool descending : {false, true}) {
        std::shared_ptr<RegionKernel> kernel = cuda_region_kernel(launcher, made.products[i].region, descending);
        TrialResult trial = try_kernel(made.flat, made.products[i].region, *kernel, {.rows = {}});
        EXPECT_EQ(trial.failure, "") << made.drafts[i].calls << (descending ? ", descending" : "") << "\n"
                                     << made.drafts[i].expression;
      }
    }
  }
  EXPECT_EQ(seen.size(), texts.size());
}

TEST(CudaProducts, RowsProductsAndWhatFollowsAreOneRegion) {
  EXPECT_THAT(ModelProducts("tiny-qwen3").calls(),
              AllOf(Contains("rms_norm + linear"), Contains("rms_norm + linear + silu_and_mul")));
  EXPECT_THAT(ModelProducts("tiny-gemma4").calls(),
              Contains("rms_norm + rms_norm + linear + gelu_and_mul + rms_norm + rms_norm"));
  EXPECT_THAT(ModelProducts("tiny-qwen3-next").calls(),
              AllOf(Contains("rms_norm_gated + linear"), Contains("sigmoid_mul + linear"),
                    Contains("gemma_rms_norm + linear + linear + silu_and_mul")));
  EXPECT_THAT(ModelProducts("tiny-deepseek-v32").calls(), Contains("rms_norm + linear + linear + linear + linear"));
}

TEST(CudaProducts, SlowLargeModelsHaveThemAroundTheirHandWrittenBlocks) {
  EXPECT_THAT(ModelProducts("gemma4-26b-a4b", true).calls(),
              Contains("rms_norm + rms_norm + rms_norm + layer_scalar + rms_norm + linear"));
  // The gate of the shared expert is a sum of one row: it is computed with what comes before the product.
  EXPECT_THAT(ModelProducts("qwen3-next-80b-a3b", true).calls(),
              Contains("linear + sigmoid_mul_add + gemma_rms_norm + linear + linear + fused_gdn_gating"));
}

TEST(CudaProducts, WhatOthersReadIsStored) {
  ModelProducts made("tiny-qwen3");
  const FoundProducts& found = made.with("rms_norm + linear + silu_and_mul");
  const ProductProgram& program = *found.region.products;
  EXPECT_EQ(program.kept.size(), 1u) << "the sum with the residual";
  ASSERT_EQ(program.tasks.size(), 1u);
  EXPECT_EQ(program.tasks[0].sums.size(), 2u) << "gate and up";
  EXPECT_EQ(program.tasks[0].stores.size(), 1u);
  EXPECT_EQ(found.covers.size(), 2u) << "the norm and the activation";
  std::set<std::string> seen;
  for (const RegionText& text : made.texts(seen))
    if (text.comment.starts_with("rms_norm + linear + silu_and_mul\n")) {
      std::string source = cuda_region_source({text});
      EXPECT_THAT(source, AllOf(HasSubstr("//   rms_norm + linear + silu_and_mul\n"), HasSubstr("sqrt((sum("),
                                HasSubstr("if (blockIdx.x == 0 % gridDim.x) store_rows<fk::bf16"),
                                HasSubstr("const fk::bf16 sum1 = total(column + 8")));
    }
}

TEST(CudaProducts, ASumThatIsReadElsewhereIsNotComputedTwice) {
  ModelProducts made("tiny-qwen3");
  ASSERT_THAT(made.calls(), Contains("rms_norm + linear + silu_and_mul"));
  // Now the model returns what gate and up give.
  for (const GraphNode& node : made.flat.nodes)
    if (node.op == "silu_and_mul") made.flat.outputs.push_back({"gate_up", node.input("x")->value});
  made.find();
  EXPECT_THAT(made.calls(), Not(Contains("rms_norm + linear + silu_and_mul")));
  EXPECT_THAT(made.calls(), Contains("rms_norm + linear"));
}

TEST(CudaProducts, OfOneRegionMultiplyTheSameRows) {
  for (const char* model : {"tiny-gemma4", "tiny-qwen3-next", "tiny-deepseek-v32", "tiny-jamba", "tiny-gpt-oss"}) {
    SCOPED_TRACE(model);
    ModelProducts made(model);
    std::set<size_t> covered, nodes;
    for (const FoundProducts& p : made.products) {
      std::set<ValueId> rows;
      for (size_t n : p.region.product_nodes) {
        EXPECT_EQ(made.flat.nodes[n].op, "linear");
        rows.insert(made.flat.nodes[n].input("x")->value);
      }
      EXPECT_EQ(rows.size(), 1u);
      for (size_t r : p.covers) EXPECT_TRUE(covered.insert(r).second) << "a region is inside of two";
      for (size_t n : p.region.region.nodes) EXPECT_TRUE(nodes.insert(n).second) << "a call is in two";
      for (const Region::Output& o : p.region.region.outputs) EXPECT_LT(o.updates, 0) << "a state is updated";
      // Each can be one step of a plan.
      EXPECT_NO_THROW(schedule_units(made.flat, {&p.region.region}));
    }
  }
}

TEST(CudaProducts, OtherWeightsAreLeftAlone) {
  EXPECT_FALSE(ModelProducts("tiny-qwen3", false, DType::kF16).products.empty());
  EXPECT_TRUE(ModelProducts("tiny-qwen3", false, DType::kF32).products.empty());
  // Quantised weights have operators of their own.
  ModelProducts ternary("tiny-bitnet");
  EXPECT_TRUE(std::any_of(ternary.flat.nodes.begin(), ternary.flat.nodes.end(),
                          [](const GraphNode& node) { return node.op == "ternary_linear"; }));
  for (const std::string& calls : ternary.calls()) EXPECT_THAT(calls, Not(HasSubstr("ternary_linear")));
}

TEST(CudaProducts, WeightsThatAreDividedOverRanksAreLeftAlone) {
  ModelProducts made("tiny-gemma4");
  ASSERT_FALSE(made.products.empty());
  ModelConfig config = resolve_model("tiny-gemma4").config;
  config.set_ranks(2, true);
  std::unique_ptr<Node> root = build_model(config, {.oracle = true});
  made.flat = flatten(trace_graph(*root, "tiny-gemma4", GraphPhase::kDecode, config.facts.dtype));
  made.find();
  EXPECT_TRUE(made.products.empty());
}

TEST(CudaProducts, KernelsRefuseManyRows) {
  ModelProducts made("tiny-qwen3");
  const FoundProducts& found = made.with("rms_norm + linear");
  std::shared_ptr<RegionKernel> kernel = cuda_region_kernel(nullptr, found.region, false);
  auto refusal = [&](int64_t rows) {
    RegionMemory memory(made.flat, found.region, sizes_with_rows(GraphPhase::kDecode, rows), 1);
    return std::string(kernel->refuse(memory.inputs(), memory.outputs()));
  };
  EXPECT_EQ(refusal(1), "");
  EXPECT_EQ(refusal(8), "");
  EXPECT_EQ(refusal(9), "it takes few rows");
  dynamic_cast<CutKernel&>(*kernel).use(0, CutKernel::kNoCut);
  EXPECT_EQ(refusal(1), "");
  EXPECT_EQ(refusal(2), "it is not used for so many rows");
}

TEST(CudaProducts, AKernelThatDoesNothingIsWrong) {
  ModelProducts made("tiny-qwen3");
  const FoundProducts& found = made.with("rms_norm + linear");
  CudaRegionFunction nothing = [](const RegionArray*, int64_t, int, int, void*) { return 0; };
  TrialResult trial =
      try_kernel_here(made.flat, found.region, *cuda_region_kernel(nothing, found.region, false), {.rows = {}});
  EXPECT_THAT(trial.failure, AllOf(HasSubstr("8 warps x 2 loads"), HasSubstr("with 1 rows, result")));
  EXPECT_FALSE(products_win(trial, {1, 2000, 1000, 2, 1.9, 2.1, "FASTER"}, 0));
}

TEST(CudaProducts, CompeteWithKernelsForPartsOfThem) {
  const TrialResult right;
  const RegionTiming timing{1, 2000, 1000, 2, 1.9, 2.1, "FASTER"};
  EXPECT_TRUE(products_win(right, timing, 0));
  EXPECT_TRUE(products_win(right, timing, 900));
  EXPECT_FALSE(products_win(right, timing, 995)) << "less than a percent";
  EXPECT_FALSE(products_win(right, timing, 1200));
  RegionTiming unresolved = timing;
  unresolved.verdict = "UNRESOLVED";
  EXPECT_FALSE(products_win(right, unresolved, 0));
}

TEST(CudaProducts, TrialsAreKeptWithTheirCuts) {
  TrialResult trial{"", {{1, 2000, 1000, 2, 1.9, 2.1, "FASTER"}}, 3, 6, {{3, 1, 1000.5}, {6, 8, 1200}}};
  TrialResult again = trial_from_json(trial_to_json(trial));
  EXPECT_EQ(again.one, 3);
  EXPECT_EQ(again.several, 6);
  ASSERT_EQ(again.cuts.size(), 2u);
  EXPECT_EQ(again.cuts[0].ns, 1000.5);
  EXPECT_EQ(again.cuts[1].rows, 8);
  EXPECT_EQ(trial_from_json(trial_to_json({})).one, CutKernel::kNoCut);
}

TEST(CudaProducts, SlowComputeWhatTheDefinitionsSay) {
  expect_right_products({"tiny-qwen3", "tiny-gemma4", "tiny-qwen3-next", "tiny-gpt-oss"});
}

TEST(CudaProducts, SlowThoseOfEveryFamilyComputeWhatTheDefinitionsSay) {
  std::vector<std::string> models;
  for (const CatalogEntry* entry : one_of_each_family())
    if (!is_stateless(entry->config.facts.task)) models.push_back(entry->name);
  expect_right_products(models);
}

TEST(CudaProducts, SlowNvccCompilesThoseOfLargeModels) {
  if (find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc";
  std::set<std::string> seen;
  for (const char* model : {"gemma4-26b-a4b", "qwen3-next-80b-a3b", "deepseek-v3.2"}) {
    ModelProducts made(model, true);
    std::vector<RegionText> texts = made.texts(seen);
    ASSERT_FALSE(texts.empty());
    CompileResult built = compiled_for_both(product_source_file(cuda_region_source(texts), ".cu"));
    EXPECT_FALSE(built.failure) << model << ": " << built.failure->sentence << "\n" << built.log;
  }
}

}  // namespace
}  // namespace fk
