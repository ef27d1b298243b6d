// Generated CUDA kernels with products, without a GPU: which calls are joined, that nvcc compiles them, and that every
// cut computes what the definitions say when the threads of a block run on the CPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "candidate/toolchain.h"
#include "compiler/codegen/cuda_product.h"
#include "compiler/plan/find_products.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/region_trial.h"
#include "compiler/plan/search_products.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "models/resolve.h"
#include "tests/compiler/cuda_emulation.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// The products of one token of a model.
struct ModelProducts {
  explicit ModelProducts(const std::string& name) {
    ModelSource source = resolve_model(name);
    std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
    flat = flatten(trace_graph(*root, name, GraphPhase::kDecode, source.config.facts.dtype));
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
      const RegionDraft& d = drafts[i];
      if (seen.insert(d.key).second)
        texts.push_back({"region_" + d.key, d.calls + "\n" + d.expression, d.names, &products[i].region.loops,
                         d.constants, d.updated, products[i].region.products.get()});
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

void expect_right_products(const std::string& model, std::set<std::string>& seen) {
  SCOPED_TRACE(model);
  ModelProducts made(model);
  std::set<std::string> before = seen;
  std::vector<RegionText> texts = made.texts(seen);
  if (texts.empty()) return;
  std::string source = cuda_region_source(texts, std::string(kEmulationPrelude));
  CompileResult built = compile_candidate(
      {nullptr, product_source_file(source, ".cpp")},
      {.cxxflags = {"-O1", "-Wno-unknown-pragmas"}, .limit_ms = 300'000, .without_operator = true});
  ASSERT_FALSE(built.failure) << built.failure->sentence << "\n" << built.log << "\n" << source;
  void* library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (size_t i = 0; i < made.products.size(); ++i) {
    if (!before.insert(made.drafts[i].key).second) continue;
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

TEST(CudaProducts, ListThem) {
  for (const char* model : {"tiny-qwen3", "tiny-gemma4", "tiny-qwen3-next", "tiny-deepseek-v32"}) {
    ModelProducts made(model);
    for (const std::string& calls : made.calls()) fmt::print("{}: {}\n", model, calls);
  }
}

TEST(CudaProducts, SlowComputeWhatTheDefinitionsSay) {
  std::set<std::string> seen;
  for (const char* model : {"tiny-qwen3", "tiny-gemma4", "tiny-qwen3-next"}) expect_right_products(model, seen);
  EXPECT_GT(seen.size(), 5u);
}

}  // namespace
}  // namespace fk
