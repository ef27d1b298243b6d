// Quantised checkpoints with a damaged quantization_config, or with tensors that are missing, renamed or of another
// shape or dtype: each is loaded or refused with an Error of one line.
#include <gtest/gtest.h>

#include <iterator>

#include "core/error.h"
#include "tests/engine/quantised_configs.h"
#include "tests/engine/quantised_twins.h"
#include "tests/fuzz/mutate.h"

namespace fk {
namespace {

struct Outcomes {
  int loaded = 0, refused = 0;

  void load(const QuantisedTwins& twins, ThreadPool& pool) {
    try {
      load_model(resolve_model(twins.quantised_path()), {.dtype = DType::kBF16}, pool);
      ++loaded;
    } catch (const Error& e) {
      const std::string text = e.what();
      ASSERT_EQ(text.find('\n'), std::string::npos) << text;
      ASSERT_TRUE(text.ends_with('.')) << text;
      ++refused;
    }
  }
};

struct Sort {
  const char* model;
  const char* format;
  std::string config;
};
std::vector<Sort> sorts() {
  return {{kQwen3Next, "fp8_block", kBlockConfig},
          {kGemma4, "int4_packed_g32", packed_config(R"(["lm_head","re:.*vision.*"])")},
          {kKimiLinear, "nvfp4", nvfp4_config()},
          {kQwen3Moe, "int4_gptq_g32", kGptqConfig},
          {kPhi3, "int4_awq_g32", R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemm"})"},
          {kJamba, "fp8_channel", channel_config()}};
}

TEST(QuantisedCheckpointFuzz, DamagedConfigsAreLoadedOrRefused) {
  Mutator mutator(20261118);
  ThreadPool pool(2);
  Outcomes outcomes;
  for (const Sort& sort : sorts()) {
    QuantisedTwins twins(sort.model, all_in(sort.format));
    twins.write(sort.config);
    const std::string whole = twins.config().dump();
    for (int i = 0; i < 250; ++i) {
      twins.write_config(whole.substr(0, whole.size() - 1) + ",\"quantization_config\":" + mutator.mutate(sort.config) +
                         "}");
      outcomes.load(twins, pool);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(outcomes.loaded, 50);
  EXPECT_GT(outcomes.refused, 500);
}

TEST(QuantisedCheckpointFuzz, DamagedTensorsAreRefused) {
  Mutator mutator(20261119);
  ThreadPool pool(2);
  constexpr DType kTypes[] = {DType::kF32,    DType::kBF16, DType::kI8,  DType::kU8,
                              DType::kF8E4M3, DType::kI32,  DType::kI64, DType::kF16};
  for (const Sort& sort : sorts()) {
    Outcomes outcomes;
    for (int i = 0; i < 25; ++i) {
      QuantisedTwins twins(sort.model, all_in(sort.format));
      std::map<std::string, Tensor>& tensors = twins.quantised;
      auto at = std::next(tensors.begin(), static_cast<std::ptrdiff_t>(mutator.below(tensors.size())));
      const uint64_t kind = mutator.below(4);
      if (kind == 0) {
        tensors.erase(at);
      } else if (kind == 1) {
        tensors.emplace(at->first + "_", Tensor({2}, DType::kF32));
        tensors.erase(at->first);
      } else {
        Shape shape = at->second.view().shape();
        if (kind == 2 && shape.rank() > 0) shape[static_cast<int>(mutator.below(shape.rank()))] += 1;
        at->second = Tensor(shape, kTypes[mutator.below(std::size(kTypes))]);
      }
      twins.write(sort.config);
      outcomes.load(twins, pool);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(outcomes.refused, 12) << sort.format;
  }
}

}  // namespace
}  // namespace fk
