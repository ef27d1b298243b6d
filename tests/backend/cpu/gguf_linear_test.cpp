// `gguf_linear`: one token, few and many take different paths through the kernels; the outputs of a token do not depend
// on which, but for the rounding of float sums.
#include "ops/l1/gguf_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "ops/registry.h"

namespace fk {
namespace {

constexpr int64_t kRows = 71, kColumns = 768, kTokens = 13;

class GgufProduct {
 public:
  GgufProduct(const ImplementationInfo& implementation, const WeightFormat& format)
      : weight_({kRows, format.row_bytes(kColumns)}, DType::kU8) {
    Stream stream(3, format.name);
    std::vector<float> values(kRows * kColumns);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(stream.normal(i));
    quantise(format, values.data(), kRows * kColumns, reinterpret_cast<std::byte*>(weight_.ptr<uint8_t>()));
    const OperatorInfo& info = Registry::instance().at("gguf_linear");
    Fields init = info.default_init();
    for (Field& f : init) {
      if (f.name == "in_features") f.value = kColumns;
      if (f.name == "out_features") f.value = kRows;
      if (f.name == "weight_format") f.value = std::string(format.name);
      if (f.name == "float_output") f.value = true;
    }
    BuildOptions only;
    only.only_operator = info.name;
    only.only_implementation = implementation.name;
    node_ = info.build(init, only);
    node_->bind([&](const std::string&) { return weight_.view(); });
  }

  // The first `tokens` rows of x.
  Tensor of(const Tensor& x, int64_t tokens) {
    ThreadPool pool(2);
    Arena arena;
    Context ctx{.pool = pool, .arena = arena, .attention = nullptr, .states = {}};
    Tensor y({tokens, kRows}, DType::kF32);
    std::vector<OptView> args{View(x.view().data(), {tokens, kColumns}, x.view().dtype()), y.view()};
    node_->call(ctx, args);
    return y;
  }

 private:
  Tensor weight_;
  std::unique_ptr<Node> node_;
};

TEST(GGUFLinearOnCpu, OutputsOfATokenDoNotDependOnTheOthers) {
  Tensor x({kTokens, kColumns}, DType::kF32);
  Stream stream(4, "x");
  for (int64_t i = 0; i < kTokens * kColumns; ++i)
    x.ptr<float>()[i] = static_cast<float>(stream.normal(static_cast<uint64_t>(i)));
  for (const ImplementationInfo& implementation : Registry::instance().at("gguf_linear").implementations) {
    if (implementation.is_oracle || implementation.device != DeviceKind::kCpu) continue;
    if (implementation.unavailable != nullptr && !implementation.unavailable().empty()) continue;
    for (const char* format : {"q8_0", "q4_0", "q4_k", "q6_k"}) {
      GgufProduct product(implementation, weight_format(format));
      Tensor all = product.of(x, kTokens);
      for (int64_t tokens = 1; tokens < 6; ++tokens) {
        Tensor some = product.of(x, tokens);
        for (int64_t i = 0; i < tokens * kRows; ++i)
          ASSERT_NEAR(some.ptr<float>()[i], all.ptr<float>()[i], 2e-3)
              << implementation.name << " " << format << ", token " << i / kRows << " of " << tokens << ", row "
              << i % kRows;
      }
    }
  }
}

// More tokens than one task of any kernel takes; every fifth is the same.
TEST(GGUFLinearOnCpu, EqualTokensHaveEqualOutputsWhereverTheyStand) {
  constexpr int64_t kMany = 523, kDifferent = 5;
  Tensor x({kMany, kColumns}, DType::kF32);
  Stream stream(5, "x");
  for (int64_t i = 0; i < kMany * kColumns; ++i)
    x.ptr<float>()[i] = static_cast<float>(stream.normal(static_cast<uint64_t>(i % (kDifferent * kColumns))));
  for (const ImplementationInfo& implementation : Registry::instance().at("gguf_linear").implementations) {
    if (implementation.is_oracle || implementation.device != DeviceKind::kCpu) continue;
    if (implementation.unavailable != nullptr && !implementation.unavailable().empty()) continue;
    for (const char* format : {"q8_0", "q4_k", "q6_k"}) {
      GgufProduct product(implementation, weight_format(format));
      Tensor all = product.of(x, kMany), few = product.of(x, kDifferent);
      for (int64_t i = 0; i < kMany * kRows; ++i)
        ASSERT_NEAR(all.ptr<float>()[i], few.ptr<float>()[i % (kDifferent * kRows)], 2e-3)
            << implementation.name << " " << format << ", token " << i / kRows << ", row " << i % kRows;
    }
  }
}

// In bf16 many tokens may be multiplied without rounding them to int8, in passes of some hundreds.
TEST(GGUFLinearOnCpu, ManyTokensInBf16AreCloseToFew) {
  constexpr int64_t kMany = 523, kDifferent = 5;
  Tensor x({kMany, kColumns}, DType::kBF16);
  Stream stream(6, "x");
  for (int64_t i = 0; i < kMany * kColumns; ++i)
    x.ptr<bf16>()[i] =
        static_cast<bf16>(static_cast<float>(stream.normal(static_cast<uint64_t>(i % (kDifferent * kColumns)))));
  for (const ImplementationInfo& implementation : Registry::instance().at("gguf_linear").implementations) {
    if (implementation.is_oracle || implementation.device != DeviceKind::kCpu) continue;
    if (implementation.unavailable != nullptr && !implementation.unavailable().empty()) continue;
    for (const char* format : {"q8_0", "q4_0", "q4_k", "q6_k"}) {
      GgufProduct product(implementation, weight_format(format));
      Tensor all = product.of(x, kMany), few = product.of(x, kDifferent);
      for (int64_t t = 0; t < kMany; ++t) {
        double squares = 0, scale = 0;
        for (int64_t n = 0; n < kRows; ++n) {
          const double got = all.ptr<float>()[t * kRows + n], want = few.ptr<float>()[t % kDifferent * kRows + n];
          squares += (got - want) * (got - want);
          scale += want * want;
        }
        ASSERT_LT(std::sqrt(squares / scale), 0.02) << implementation.name << " " << format << ", token " << t;
      }
    }
  }
}

}  // namespace
}  // namespace fk
