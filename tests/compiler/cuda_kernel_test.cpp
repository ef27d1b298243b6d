// Generated CUDA kernels without a GPU: their text, that nvcc compiles them, and that they compute what the definitions
// say when the threads of a block run on the CPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "candidate/toolchain.h"
#include "compiler/codegen/cuda_kernel.h"
#include "compiler/codegen/element_text.h"
#include "compiler/plan/find_regions.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/region_trial.h"
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

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

GraphBody flat_of(const CatalogEntry& entry, GraphPhase phase) {
  ModelSource source = resolve_model(entry.name);
  std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
  return flatten(trace_graph(*root, entry.name, phase, source.config.facts.dtype));
}

// The different kernels of a graph.
struct Kernels {
  std::vector<FoundRegion> found;  // the first region of each
  std::vector<RegionDraft> drafts;
  std::vector<RegionText> texts;
};

Kernels kernels_of(const GraphBody& flat, std::set<std::string>& seen) {
  Kernels kernels;
  for (FoundRegion& f : find_regions(flat, nullptr, DeviceKind::kCuda)) {
    RegionDraft draft = draft_of(f, flat, DeviceKind::kCuda);
    if (!seen.insert(draft.key).second) continue;
    kernels.drafts.push_back(draft);
    kernels.found.push_back(std::move(f));
  }
  for (size_t i = 0; i < kernels.found.size(); ++i) {
    kernels.texts.push_back(text_of(kernels.drafts[i], kernels.found[i]));
  }
  return kernels;
}

std::string written(const std::string& source, const std::string& suffix) {
  fs::path folder = fs::path(testing::TempDir()) / "fk_cuda_kernels";
  fs::create_directories(folder);
  fs::path path = folder / (Fingerprint().add(source).hex() + suffix);
  write_whole(path.string(), source);
  return path.string();
}

// The different kernels of some graphs, compiled together: one with the emulation takes 0.7 s, most of them for that.
class EmulatedKernels {
 public:
  void add(const CatalogEntry& entry, const std::vector<GraphPhase>& phases) {
    for (GraphPhase phase : phases) {
      GraphBody flat = flat_of(entry, phase);
      Kernels kernels = kernels_of(flat, seen_);
      if (kernels.texts.empty()) continue;
      texts_.insert(texts_.end(), kernels.texts.begin(), kernels.texts.end());
      graphs_.push_back({entry.name, phase, std::move(flat), std::move(kernels)});
    }
  }

  void expect_right() const {
    const std::string source = cuda_region_source(texts_, std::string(kEmulationPrelude));
    CompileResult built =
        compile_candidate({nullptr, written(source, ".cpp")},
                          {.cxxflags = {"-O0", "-Wno-unknown-pragmas"}, .limit_ms = 600'000, .without_operator = true});
    ASSERT_FALSE(built.failure) << built.failure->sentence << "\n" << built.log << "\n" << source;
    void* library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    for (const OfGraph& graph : graphs_) expect_right(graph, library);
  }
  size_t size() const { return texts_.size(); }

 private:
  struct OfGraph {
    std::string model;
    GraphPhase phase;
    GraphBody flat;
    Kernels kernels;
  };

  static void expect_right(const OfGraph& graph, void* library) {
    const auto& [model, phase, flat, kernels] = graph;
    SCOPED_TRACE(model + " " + std::string(phase_name(phase)));
    for (size_t i = 0; i < kernels.found.size(); ++i) {
      auto* launcher = reinterpret_cast<CudaRegionFunction>(dlsym(library, kernels.texts[i].name.c_str()));
      ASSERT_NE(launcher, nullptr);
      for (bool descending : {false, true}) {
        std::shared_ptr<RegionKernel> kernel = cuda_region_kernel(launcher, kernels.found[i], descending);
        TrialResult trial = try_kernel(flat, kernels.found[i], *kernel, {.phase = phase, .rows = {}});
        EXPECT_EQ(trial.failure, "") << kernels.drafts[i].calls << (descending ? ", descending" : "") << "\n"
                                     << cuda_region_body(kernels.texts[i]);
      }
    }
  }

  std::set<std::string> seen_;
  std::vector<RegionText> texts_;  // they point into the kernels' vectors, which stay where they are when moved
  std::vector<OfGraph> graphs_;
};

TEST(CudaKernels, SlowComputeWhatTheDefinitionsSay) {
  EmulatedKernels kernels;
  kernels.add(*find_catalog("tiny-qwen3"), {GraphPhase::kDecode});
  kernels.add(*find_catalog("tiny-rwkv7"), {GraphPhase::kDecode});
  EXPECT_GT(kernels.size(), 10u);
  kernels.expect_right();
}

// The best groups of experts, then the best experts of these: reductions inside of reductions.
TEST(CudaKernels, SlowGroupsOfExpertsAreChosenAsTheDefinitionSays) {
  GraphBody flat = flat_of(*find_catalog("tiny-deepseek-v3"), GraphPhase::kDecode);
  std::set<std::string> seen;
  bool found = false;
  for (const RegionDraft& draft : kernels_of(flat, seen).drafts)
    found = found || (" + " + draft.calls + " + ").find(" + grouped_topk + ") != std::string::npos;
  EXPECT_TRUE(found);
  EmulatedKernels kernels;
  kernels.add(*find_catalog("tiny-deepseek-v3"), {GraphPhase::kDecode});
  kernels.expect_right();
}

TEST(CudaKernels, SlowKernelsOfEveryFamilyComputeWhatTheDefinitionsSay) {
  EmulatedKernels kernels;
  for (const CatalogEntry* entry : one_of_each_family()) kernels.add(*entry, phases_of(*entry));
  kernels.expect_right();
}

// Of kernels for the same calls one: others differ in sizes, and all of them have been compiled for the emulation.
TEST(CudaKernels, SlowNvccCompilesThoseOfEveryFamily) {
  if (find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc";
  std::set<std::string> seen, calls;
  std::vector<std::unique_ptr<Kernels>> all;
  std::vector<RegionText> texts;
  for (const CatalogEntry* entry : one_of_each_family())
    for (GraphPhase phase : phases_of(*entry)) {
      GraphBody flat = flat_of(*entry, phase);
      all.push_back(std::make_unique<Kernels>(kernels_of(flat, seen)));
      for (size_t i = 0; i < all.back()->texts.size(); ++i)
        if (calls.insert(all.back()->drafts[i].calls).second) texts.push_back(all.back()->texts[i]);
    }
  constexpr size_t kAtOnce = 40;
  for (size_t first = 0; first < texts.size(); first += kAtOnce) {
    std::vector<RegionText> some(texts.begin() + static_cast<std::ptrdiff_t>(first),
                                 texts.begin() + static_cast<std::ptrdiff_t>(std::min(first + kAtOnce, texts.size())));
    CompileResult built = compiled_for_both(written(cuda_region_source(some), ".cu"));
    ASSERT_FALSE(built.failure) << built.failure->sentence << "\n" << built.log;
  }
}

// The kernel of the calls, in tiny-NAME's decode.
std::string text_of(const char* model, const std::string& calls) {
  GraphBody flat = flat_of(*find_catalog(model), GraphPhase::kDecode);
  std::set<std::string> seen;
  Kernels kernels = kernels_of(flat, seen);
  for (size_t i = 0; i < kernels.texts.size(); ++i)
    if (kernels.drafts[i].calls == calls) return cuda_region_source({kernels.texts[i]});
  ADD_FAILURE() << "no region " << calls;
  return {};
}

TEST(CudaKernels, SayWhatTheyCompute) {
  std::string norm = text_of("tiny-qwen3", "rms_norm");
  EXPECT_THAT(norm, HasSubstr("//   rms_norm\n"));
  EXPECT_THAT(norm, HasSubstr("sqrt((sum(")) << "the expression";
  EXPECT_THAT(norm, HasSubstr("over_block<0,"));
  EXPECT_THAT(norm, Not(HasSubstr("__restrict"))) << "a kernel before may still write what this one reads";
}

TEST(CudaKernels, WeightsAreLoadedBeforeTheKernelBeforeHasEndedAndNothingElse) {
  std::string norm = text_of("tiny-qwen3", "rms_norm");
  std::string body = norm.substr(norm.find("_kernel("));
  const size_t wait = body.find("wait_for_previous();");
  ASSERT_NE(wait, body.npos);
  EXPECT_THAT(body.substr(0, wait), HasSubstr(", x2_p + first_0);")) << body;
  EXPECT_THAT(body.substr(0, wait), Not(HasSubstr("x0_p + "))) << body;
  EXPECT_THAT(body.substr(wait), HasSubstr("x0_p + l0 * x0_s0 + first_0")) << body;
}

TEST(CudaKernels, RowsOfElementsAreDividedOverBlocksAndNormsAreNot) {
  // 4 elements of two bytes a thread: so many that a block has a part of a row.
  GraphBody flat = flat_of(*find_catalog("llama-3.2-1b"), GraphPhase::kDecode);
  std::set<std::string> seen;
  Kernels kernels = kernels_of(flat, seen);
  for (size_t i = 0; i < kernels.texts.size(); ++i) {
    const std::string text = cuda_region_body(kernels.texts[i]);
    if (kernels.drafts[i].calls == "silu_and_mul") {
      EXPECT_THAT(text, HasSubstr("rows * 8, 128")) << text;
    }
    if (kernels.drafts[i].calls == "rms_norm") {
      EXPECT_THAT(text, HasSubstr("rows, 256")) << text;
    }
  }
}

TEST(CudaKernels, ElementsInTextsAreFound) {
  auto any = [](std::string_view word) { return word.ends_with("_p"); };
  std::vector<ElementText> found = elements_in("float(x0_p[l0 * x0_s0 + i]) + float(x1_p[x2_p[l0]])", any);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].array, "x0_p");
  EXPECT_EQ(found[0].index, "l0 * x0_s0 + i");
  EXPECT_EQ(found[1].index, "x2_p[l0]");
}

TEST(CudaKernels, OnlyNeighboursAreLoadedAtOnce) {
  using Kind = IndexOfI::Kind;
  auto check = [](const std::string& index, Kind kind, int64_t multiple) {
    IndexOfI found = index_of_i(index);
    EXPECT_EQ(found.kind, kind) << index;
    if (kind != Kind::kOther) {
      EXPECT_EQ(found.multiple, multiple) << index;
    }
  };
  check("i", Kind::kPlusI, 8);
  check("l0 * x0_s0 + l1 * 24 + i", Kind::kPlusI, 8);
  check("l0 * x0_s0 + l1 * 12 + i", Kind::kPlusI, 4);
  check("l1 * 24 - l2 * 12 + i + 12", Kind::kPlusI, 4);
  check("l0 * x0_s0 + i + 3", Kind::kPlusI, 1);
  check("v3 * 64 + i", Kind::kPlusI, 8);
  check("l1", Kind::kFixed, 1);
  check("0", Kind::kFixed, 8);
  check("i * 2", Kind::kOther, 1);
  check("-i + 12", Kind::kOther, 1);
  check("l0 * x0_s0 - i", Kind::kOther, 1);
  check("(i / 2) * 8 + i", Kind::kOther, 1);
}

}  // namespace
}  // namespace fk
