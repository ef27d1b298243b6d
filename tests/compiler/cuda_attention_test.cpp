// Generated CUDA kernels for attention, without a GPU: which calls have one, what its text says, that nvcc compiles it,
// and that it is right in every case of the operators when its threads run on the CPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <tuple>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "candidate/toolchain.h"
#include "compiler/codegen/attention_pattern.h"
#include "compiler/codegen/cuda_attention.h"
#include "compiler/plan/region_trial.h"
#include "core/error.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "ops/algebra/definition.h"
#include "ops/algebra/evaluate.h"
#include "ops/algebra/pieces.h"
#include "tests/compiler/attention_call.h"
#include "tests/compiler/cuda_emulation.h"
#include "tests/compiler/nvcc_check.h"

namespace fk {
namespace {

using algebra::Expr;
using testing::HasSubstr;
using testing::Not;

std::string attention_source_file(const std::string& source, const std::string& suffix) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fk_cuda_attention";
  std::filesystem::create_directories(folder);
  std::filesystem::path path = folder / (Fingerprint().add(source).hex() + suffix);
  write_whole(path.string(), source);
  return path.string();
}

std::vector<RegionText> texts_of_cases(const AttentionCalls& calls) {
  std::vector<RegionText> texts;
  std::set<std::string> seen;
  for (const auto& c : calls.cases)
    if (c.found != nullptr && seen.insert(c.draft.key).second) texts.push_back(text_of(c.draft, *c.found));
  return texts;
}

// The kernels, with threads that run on the CPU.
void load_emulated(const std::vector<RegionText>& texts, void*& library) {
  const std::string source = cuda_region_source(texts, std::string(kEmulationPrelude));
  CompileResult built =
      compile_candidate({nullptr, attention_source_file(source, ".cpp")},
                        {.cxxflags = {"-O0", "-Wno-unknown-pragmas"}, .limit_ms = 600'000, .without_operator = true});
  ASSERT_FALSE(built.failure) << built.failure->sentence << "\n" << built.log << "\n" << source;
  library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
}

void expect_right_cases(DType dtype, double most_flops) {
  AttentionCalls calls(dtype, most_flops);
  void* library = nullptr;
  ASSERT_NO_FATAL_FAILURE(load_emulated(texts_of_cases(calls), library));
  int examined = 0;
  for (const auto& c : calls.cases) {
    SCOPED_TRACE(c.which.label);
    if (c.found == nullptr) {
      EXPECT_EQ(c.which.label, "one token") << "only heads of one element have no kernel";
      continue;
    }
    auto* launcher = reinterpret_cast<CudaRegionFunction>(dlsym(library, ("region_" + c.draft.key).c_str()));
    ASSERT_NE(launcher, nullptr);
    for (const auto placement : {conformance::Placement::kAligned, conformance::Placement::kStridedRows}) {
      const bool descending = placement == conformance::Placement::kStridedRows;
      examined += calls.examine(c, cuda_region_kernel(launcher, *c.found, descending), placement, kCpu) ? 1 : 0;
    }
  }
  EXPECT_GT(examined, 0);
}

TEST(CudaAttention, SlowIsRightInEveryCase) { expect_right_cases(DType::kBF16, 6e7); }
TEST(CudaAttention, SlowIsRightInF16) { expect_right_cases(DType::kF16, 2e6); }
TEST(CudaAttention, SlowIsRightInF32) { expect_right_cases(DType::kF32, 1.5e5); }

// The rows of a tile are multiplied together, also those of several sequences. One that does not see a value must not
// notice what it is: elements are numbers where those of the definition are.
TEST(CudaAttention, SlowInfiniteValuesReachOnlyRowsThatSeeThem) {
  AttentionCalls calls(DType::kF32, 1.5e5);
  void* library = nullptr;
  ASSERT_NO_FATAL_FAILURE(load_emulated(texts_of_cases(calls), library));
  int reached = 0, kept = 0;
  for (const auto& c : calls.cases) {
    SCOPED_TRACE(fmt::format("{} '{}'", c.info->name, c.which.label));
    if (c.found == nullptr || c.info->name == std::string("attention_pool") || c.which.workload.page_size != 16)
      continue;
    auto* launcher = reinterpret_cast<CudaRegionFunction>(dlsym(library, ("region_" + c.draft.key).c_str()));
    ASSERT_NE(launcher, nullptr);
    const std::shared_ptr<RegionKernel> kernel = cuda_region_kernel(launcher, *c.found, false);
    Workload workload = c.which.workload;
    workload.dtype = c.dtype;
    const Fields init = conformance::with_dtype(c.which.init, c.dtype);
    const std::unique_ptr<Node> oracle = c.info->build(init, {.oracle = true});
    if (!collect_params(*oracle).empty()) continue;
    CallData data = make_call_data(*oracle, workload, 1);
    std::vector<OptView> given;
    for (const auto& tensor : data.given) given.push_back(tensor ? OptView(tensor->view()) : std::nullopt);
    const TensorSpec spec = *oracle->outputs(given).specs[0];
    const Definition definition = define(c.info->name, init, given);
    algebra::Environment environment;
    environment.input = [&](const algebra::Head& input) {
      for (size_t i = 0; i < given.size(); ++i)
        if (c.info->args[i].name == input.name) return algebra::load_values(*given[i]);
      throw Error("There is no input {}.", input.name);
    };
    const View values = given[2]->reshape({given[2]->numel()});
    for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      for (int64_t at = 5; at < values.numel(); at += std::max<int64_t>(1, values.numel() / 7)) {
        const double before = get(values, at);
        set(values, value, at);
        const Tensor got = result_of(calls, c, *kernel, given, spec);
        const algebra::Values want = algebra::evaluate({definition.results()[0].expr}, environment)[0];
        set(values, before, at);
        const View flat = got.view().reshape({got.view().numel()});
        ASSERT_EQ(static_cast<size_t>(flat.numel()), want->size());
        for (int64_t i = 0; i < flat.numel(); ++i) {
          const bool finite = std::isfinite((*want)[static_cast<size_t>(i)]);
          ASSERT_EQ(std::isfinite(get(flat, i)), finite) << "element " << i << " with " << value << " as value " << at;
          (finite ? kept : reached) += 1;
        }
      }
  }
  EXPECT_GT(reached, 100);
  EXPECT_GT(kept, 1000);
}

// The program of a case in bf16.
AttentionProgram program_of(std::string_view op, const std::string& label) {
  static const AttentionCalls calls(DType::kBF16, 1e9);
  for (const auto& c : calls.cases)
    if (c.info->name == op && c.which.label == label && c.found != nullptr) return *c.found->attention;
  ADD_FAILURE() << "no kernel for " << op << " '" << label << "'";
  return {};
}

TEST(CudaAttention, MasksAreIntervalsOfKeys) {
  const AttentionProgram plain = program_of("flash_attn_decode", "ragged");
  EXPECT_EQ(plain.first.size(), 1u) << "every key from the first on";
  EXPECT_EQ(plain.source, "l0") << "each row is a sequence";
  EXPECT_EQ(plain.keys.text(), "(x4_n1 * 16)");
  const AttentionProgram window = program_of("flash_attn_decode", "sliding window");
  EXPECT_EQ(window.first.size(), 2u);
  const AttentionProgram chunks = program_of("flash_attn_prefill", "chunks");
  EXPECT_EQ(chunks.first.size(), 3u) << "not below 0, by the definition and by the kernel, and the chunk";
  EXPECT_THAT(chunks.first, testing::Contains(HasSubstr("/ int64_t(24)")));
  const AttentionProgram all = program_of("flash_attn_prefill", "not causal");
  EXPECT_EQ(all.source, "") << "keys without pages are one array";
  EXPECT_THAT(program_of("flash_attn_prefill", "soft cap").score, HasSubstr("hyperbolic_tangent("));
  EXPECT_EQ(program_of("flash_attn_decode", "sinks, many keys").sink, "float(x5_p[g])");
}

TEST(CudaAttention, WeightsAreRoundedOnlyWhereTheToleranceOfTheOperatorSaysSo) {
  EXPECT_TRUE(program_of("flash_attn_decode", "ragged").rounds_weights);
  EXPECT_FALSE(program_of("attention_pool", "ragged").rounds_weights);
}

TEST(CudaAttention, OtherExpressionsAreNone) {
  const Expr x = algebra::input("x", DType::kF32, {4, 2, 2, 8, 1});
  EXPECT_FALSE(match_attention(x));
  EXPECT_FALSE(match_attention(algebra::softmax(x, 3)));
  const Expr q = algebra::input("q", DType::kF32, {4, 2, 2, 1, 16}),
             k = algebra::input("k", DType::kF32, {4, 2, 1, 8, 16});
  const Expr v = algebra::input("v", DType::kF32, {4, 2, 1, 8, 16});
  const Expr key = algebra::iota({1, 1, 1, 8, 1}, 3), row = algebra::iota({4, 1, 1, 1, 1}, 0);
  EXPECT_TRUE(match_attention(attend_all({}, q, k, v, key < row)));
  // A mask that is no interval is refused and not guessed.
  EXPECT_EQ(lower_attention({{"y0", attend_all({}, q, k, v, key < row)}}).refusal, "");
  EXPECT_EQ(lower_attention({{"y0", attend_all({}, q, k, v, (key < row) | (key < 3))}}).refusal,
            "a mask is no comparison of keys");
  EXPECT_EQ(lower_attention({{"y0", attend_all({}, q, k, v, key * 2 < row)}}).refusal, "a mask does not bound the key");
  EXPECT_EQ(lower_attention({{"y0", attend_all({}, q, k, v, equal(key, row))}}).refusal,
            "a mask is no comparison of keys");
  // Keys that are computed are not read as they lie in memory.
  EXPECT_EQ(lower_attention({{"y0", attend_all({}, q, k * 2, v, key < row)}}).refusal,
            "rows are computed and not only read");
}

TEST(CudaAttention, FewRowsShareTheirKeysAmongBlocks) {
  const AttentionProgram p = program_of("flash_attn_decode", "heads of 128");
  constexpr int kProcessors = 132;
  EXPECT_EQ(attention_cut(p, 1, 64, kProcessors).splits, 1) << "too few keys";
  const AttentionCut long_row = attention_cut(p, 1, 4096, kProcessors);
  EXPECT_EQ(long_row.splits, 32);
  EXPECT_EQ(long_row.workspace, 32 * 8 * 130);
  EXPECT_EQ(attention_cut(p, 66, 4096, kProcessors).splits, 2);
  EXPECT_EQ(attention_cut(p, 66, 4096, kProcessors).share, 4);
  EXPECT_EQ(attention_cut(p, 264, 4096, kProcessors).share, 1);
  EXPECT_EQ(attention_cut(p, 0, 4096, kProcessors).workspace, 0);
}

TEST(CudaAttention, KernelsSayWhatTheyCompute) {
  const std::string source = cuda_region_source(texts_of_cases(AttentionCalls(DType::kBF16, 1e4)));
  EXPECT_THAT(source, HasSubstr("//   flash_attn_decode\n"));
  EXPECT_THAT(source, HasSubstr("wait_for_previous();"));
  EXPECT_THAT(source, Not(HasSubstr("1000003"))) << "an extent of a batch is no number";
}

// Of models, with the batches of trials: pages and lengths that fit together, in every phase.
TEST(CudaAttention, SlowTrialsOfModelsFindItRight) {
  const std::pair<const char*, std::vector<GraphPhase>> models[] = {
      {"tiny-qwen3", {GraphPhase::kDecode, GraphPhase::kPrefill, GraphPhase::kMixed}},
      {"tiny-gemma3", {GraphPhase::kDecode, GraphPhase::kPrefill}},
      {"tiny-gpt-oss", {GraphPhase::kDecode, GraphPhase::kPrefill}},
      {"tiny-xlm-roberta", {GraphPhase::kEncode}},
  };
  for (const auto& [name, phases] : models)
    for (const GraphPhase phase : phases) {
      SCOPED_TRACE(fmt::format("{} {}", name, phase_name(phase)));
      const CatalogEntry* entry = find_catalog(name);
      ASSERT_NE(entry, nullptr);
      std::unique_ptr<Node> root = build_model(entry->config, {.oracle = true});
      const GraphBody flat = flatten(trace_graph(*root, name, phase, entry->config.facts.dtype));
      std::vector<FoundRegion> found = find_regions(flat, nullptr, DeviceKind::kCuda);
      std::erase_if(found, [](const FoundRegion& f) { return f.attention == nullptr; });
      ASSERT_FALSE(found.empty());
      const RegionDraft draft = draft_of(found[0], flat, DeviceKind::kCuda);
      void* library = nullptr;
      ASSERT_NO_FATAL_FAILURE(load_emulated({text_of(draft, found[0])}, library));
      auto* launcher = reinterpret_cast<CudaRegionFunction>(dlsym(library, ("region_" + draft.key).c_str()));
      ASSERT_NE(launcher, nullptr);
      auto trial = [&](CudaRegionFunction tried) {
        return try_kernel(flat, found[0], *cuda_region_kernel(tried, found[0], false), {.phase = phase, .rows = {}});
      };
      EXPECT_EQ(trial(launcher).failure, "") << draft.calls << "\n" << draft.expression;
      EXPECT_THAT(trial([](const RegionArray*, int64_t, int, int, void*) { return 0; }).failure, HasSubstr("result 0"));
    }
}

// One for heads of each size: masks and tables are the text that has been compiled for the emulation.
TEST(CudaAttention, SlowNvccCompilesThem) {
  if (find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc";
  for (const auto& [dtype, most] :
       {std::pair(DType::kBF16, 1e9), std::pair(DType::kF16, 1e5), std::pair(DType::kF32, 1e5)}) {
    const AttentionCalls calls(dtype, most);
    std::vector<RegionText> texts = texts_of_cases(calls);
    std::set<std::tuple<int64_t, int64_t, bool>> sizes;
    std::erase_if(texts, [&](const RegionText& t) {
      return !sizes.emplace(t.attention->query_size, t.attention->value_size, t.attention->rounds_weights).second;
    });
    CompileResult built = compiled_for_both(attention_source_file(cuda_region_source(texts), ".cu"));
    EXPECT_FALSE(built.failure) << built.failure->sentence << "\n" << built.log;
  }
}

}  // namespace
}  // namespace fk
