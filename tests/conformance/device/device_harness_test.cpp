// The conformance harness on a device: honest kernels pass, planted errors are reported, and the harness never accesses
// device memory from the CPU.
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/conformance/device/aliased_device.h"
#include "tests/conformance/trial.h"

namespace fk::conformance {
namespace {

[[maybe_unused]] const bool registered = (register_aliased_device(), true);

constexpr Placement kPlacements[] = {Placement::kAligned, Placement::kMisaligned, Placement::kStridedRows};

using Mischief = std::function<void(int call, Args args)>;

// The operator's CPU implementation as a kernel of the device, then a planted error, with views it can access.
class Examined {
 public:
  Examined(std::string_view op, std::string_view label, DType dtype) : info_(Registry::instance().at(op)) {
    for (const auto& c : info_.cases())
      if (c.label == label) problem_.emplace(make_problem(info_, c, dtype));
    FK_CHECK(problem_.has_value());
    honest_ = info_.build(problem_->init, {});
  }

  std::string faults(const Mischief& mischief = {}, Placement placement = Placement::kAligned) {
    int calls = 0;
    Subject kernel{[&](const Node::Lookup& weights) {
                     honest_->bind([&](const std::string& name) { return reachable(weights(name)); });
                   },
                   [&](Context& ctx, Args args) {
                     std::vector<OptView> near = call(ctx, args);
                     if (mischief) mischief(calls++, near);
                   }};
    Verdict verdict = examine(*problem_, kernel, placement, pool_, kAliased);
    std::string all;
    for (const std::string& fault : verdict.faults) all += fault + "\n";
    return all;
  }

 private:
  std::vector<OptView> call(Context& given, Args args) {
    EXPECT_EQ(given.stream, device_runtime(kAliased).stream());
    EXPECT_EQ(given.arena.make({{4}, DType::kF32}).device(), kAliased);
    std::vector<OptView> near;
    for (const OptView& v : args) {
      EXPECT_TRUE(!v || v->device() == kAliased);
      near.push_back(v ? OptView(reachable(*v)) : v);
    }
    AttentionMetadata metadata = *given.attention;
    for (SequenceGroup* group : {&metadata.decode, &metadata.prefill})
      for (View* v :
           {&group->cu_seqlens_q, &group->cu_seqlens_k, &group->seq_lens, &group->block_table, &group->state_slots})
        *v = reachable(*v);
    metadata.slot_mapping = reachable(metadata.slot_mapping);
    std::vector<View> states;
    for (const View& state : given.states) states.push_back(reachable(state));
    Arena arena;
    Context ctx{.pool = pool_, .arena = arena, .attention = &metadata, .states = states};
    honest_->call(ctx, near);
    return near;
  }

  const OperatorInfo& info_;
  std::optional<Problem> problem_;
  std::unique_ptr<Node> honest_;
  ThreadPool pool_{1};
};

TEST(OnADevice, HonestKernelsPass) {
  struct {
    std::string_view op, label;
  } const cases[] = {{"rms_norm", "odd tail with residual"},  // rows, a weight, two outputs
                     {"rotary_emb", "default"},               // state
                     {"store_kvcache", "mixed batch"},        // indices, caches
                     {"sample", "odd vocabulary"},            // judged
                     {"argmax", "no rows"},                   // nothing at all
                     {"attention", "mixed, chunked"}};        // metadata and KV cache of the context
  for (const auto& [op, label] : cases)
    for (DType dtype : {DType::kBF16, DType::kF32})
      for (Placement placement : kPlacements)
        EXPECT_EQ(Examined(op, label, dtype).faults({}, placement), "")
            << op << ", " << dtype_name(dtype) << ", " << placement_name(placement);
}

class PlantedOnADevice : public testing::Test {
 protected:
  enum Arg : size_t { kX, kResidual, kOut, kResidualOut };
  std::string faults_after(const Mischief& mischief, Placement placement = Placement::kAligned) {
    return Examined("rms_norm", "odd tail with residual", DType::kF32).faults(mischief, placement);
  }
};

TEST_F(PlantedOnADevice, WriteOutsideABuffer) {
  for (Arg arg : {kX, kResidual, kOut, kResidualOut}) {
    for (int64_t element : {-1, 0, 5}) {
      std::string faults = faults_after(
          [=](int, Args args) { args[arg]->ptr<float>()[element >= 0 ? args[arg]->numel() + element : element] = 0; });
      EXPECT_NE(faults.find("wrote outside"), faults.npos) << faults;
    }
  }
  std::string gap =
      faults_after([](int, Args args) { args[kX]->ptr<float>()[args[kX]->size(1)] = 0; }, Placement::kStridedRows);
  EXPECT_NE(gap.find("wrote outside 'x'"), gap.npos) << gap;
}

TEST_F(PlantedOnADevice, ChangedInput) {
  std::string faults = faults_after([](int, Args args) { set(*args[kResidual], 0, 1, 1); });
  EXPECT_NE(faults.find("changed the input 'residual'"), faults.npos) << faults;
}

TEST_F(PlantedOnADevice, BitsThatChangeFromCallToCall) {
  std::string faults = faults_after([](int call, Args args) {
    float* x = args[kOut]->ptr<float>() + 5;
    if (call == 2) *x = std::nextafter(*x, 2 * *x);
  });
  EXPECT_NE(faults.find("call 3: 'out' differs in its bits"), faults.npos) << faults;
}

TEST_F(PlantedOnADevice, OneWrongElement) {
  std::string faults = faults_after([](int, Args args) { args[kOut]->ptr<float>()[3] += 1; });
  EXPECT_NE(faults.find("call 1: 'out': 1 of 655 elements are off"), faults.npos) << faults;
}

TEST(JudgedOnADevice, ReportsATokenNobodyDrew) {
  std::string faults = Examined("sample", "odd vocabulary", DType::kF32).faults([](int, Args args) {
    for (int64_t s = 0; s < args[7]->size(0); ++s) set(*args[7], 330, s);
  });
  EXPECT_NE(faults.find("row "), faults.npos) << faults;
}

TEST(OnADevice, MemoryIsZeroAndMovesBothWays) {
  Tensor t({3, 5}, DType::kF32, kAliased), back({3, 5}, DType::kF32);
  copy_between(t, back);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(back.ptr<float>()[i], 0);
  for (int64_t i = 0; i < 15; ++i) back.ptr<float>()[i] = static_cast<float>(i);
  Tensor twin({3, 5}, DType::kF32, kAliased), again({3, 5}, DType::kF32);
  copy_between(back, t);
  copy_between(t, twin);
  copy_between(twin, again);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(again.ptr<float>()[i], static_cast<float>(i));
}

}  // namespace
}  // namespace fk::conformance
