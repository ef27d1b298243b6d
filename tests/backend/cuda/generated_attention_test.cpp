// Generated kernels for attention on the device: every case of the operators, as all implementations are examined.
#include "candidate/toolchain.h"
#include "tests/backend/cuda/on_device.h"
#include "tests/compiler/attention_call.h"

namespace fk {
namespace {

class GeneratedAttention : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc";
  }

  // Cases with at most so many operations.
  static void expect_right(DType dtype, double most_flops) {
    AttentionCalls calls(dtype, most_flops);
    std::vector<const FoundRegion*> found;
    for (const auto& c : calls.cases)
      if (c.found != nullptr) found.push_back(c.found.get());
    const CompiledRegions compiled = compile_regions(found, calls.flat, {}, DeviceKind::kCuda);
    size_t number = 0;
    int examined = 0;
    for (const auto& c : calls.cases) {
      if (c.found == nullptr) continue;
      const std::shared_ptr<RegionKernel>& kernel = compiled.kernels[number++];
      for (const auto placement : {conformance::Placement::kAligned, conformance::Placement::kStridedRows})
        examined += calls.examine(c, kernel, placement, kCuda) ? 1 : 0;
    }
    EXPECT_GT(examined, 0);
  }
};

TEST_F(GeneratedAttention, IsRightInEveryCase) { expect_right(DType::kBF16, 1e9); }
TEST_F(GeneratedAttention, IsRightInF16) { expect_right(DType::kF16, 2e6); }
TEST_F(GeneratedAttention, IsRightInF32) { expect_right(DType::kF32, 4e5); }

}  // namespace
}  // namespace fk
