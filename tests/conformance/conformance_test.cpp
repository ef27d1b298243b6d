// Every operator x implementation x dtype x case x placement against the float64 oracle. No operator is named here:
// every operator in the registry is tested automatically.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "core/device_runtime.h"
#include "core/error.h"
#include "tests/conformance/trial.h"

namespace fk::conformance {
namespace {

constexpr Placement kPlacements[] = {Placement::kAligned, Placement::kMisaligned, Placement::kStridedRows};
constexpr Placement kMisalignedOnly[] = {Placement::kMisaligned};
constexpr DType kModelDTypes[] = {DType::kBF16, DType::kF32, DType::kF16};
constexpr DType kAllFloats[] = {DType::kBF16, DType::kF32, DType::kF16, DType::kF64};
constexpr DType kCudaDTypes[] = {DType::kBF16, DType::kF32, DType::kF16};
constexpr Device kCuda{DeviceKind::kCuda, 0};

// References are made once for all implementations that run in this process.
const Problem& problem_of(const OperatorInfo& info, size_t which, DType dtype) {
  static std::map<std::tuple<std::string, size_t, DType>, Problem> made;
  auto key = std::tuple(std::string(info.name), which, dtype);
  auto at = made.find(key);
  if (at == made.end()) at = made.emplace(key, make_problem(info, info.cases()[which], dtype)).first;
  return at->second;
}

ThreadPool& pool_of(int threads) {
  static std::map<int, ThreadPool> pools;
  return pools.try_emplace(threads, threads).first->second;
}

std::string test_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

// The devices this build has kernels for; whether the machine has them too is checked in the tests.
std::vector<Device> devices() {
  for (const OperatorInfo* info : Registry::instance().operators())
    for (const ImplementationInfo& implementation : info->implementations)
      if (implementation.device == DeviceKind::kCuda) return {kCpu, kCuda};
  return {kCpu};
}

struct Entry {
  const OperatorInfo* info;
  const ImplementationInfo* implementation;
  Device device;
};
void PrintTo(const Entry& e, std::ostream* os) {
  *os << e.info->name << " by " << e.implementation->name << " on " << device_name(e.device);
}

enum class Which : uint8_t { kOracles, kKernelsAndBlocks, kLayersAndModels };

Which which_of(const OperatorInfo& info, const ImplementationInfo& implementation) {
  if (implementation.is_oracle) return Which::kOracles;
  return info.level < 3 ? Which::kKernelsAndBlocks : Which::kLayersAndModels;
}

std::vector<Entry> entries(std::span<const Device> on, Which which) {
  std::vector<Entry> list;
  for (const OperatorInfo* info : Registry::instance().operators())
    for (const ImplementationInfo& implementation : info->implementations)
      for (Device device : on)
        if ((implementation.any_device || implementation.device == device.kind) &&
            which_of(*info, implementation) == which)
          list.push_back({info, &implementation, device});
  return list;
}

// Why there is no such operator on a device other than the CPU: a part of it has no kernel there. Empty if there is.
std::string not_on_device(const OperatorInfo& info, Device device) {
  if (device == kCpu) return {};
  BuildOptions options;
  options.device = device;
  try {
    info.build(info.cases().front().init, options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

class Implementations : public testing::TestWithParam<Entry> {
 protected:
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
    if (std::string why = not_on_device(*GetParam().info, GetParam().device); !why.empty()) GTEST_SKIP() << why;
    const ImplementationInfo& implementation = *GetParam().implementation;
    if (implementation.unavailable == nullptr) return;
    if (std::string why(implementation.unavailable()); !why.empty()) GTEST_SKIP() << why;
  }

  Sweep sweep(std::span<const DType> dtypes, std::span<const Placement> placements, int threads) {
    const auto& [info, implementation, device] = GetParam();
    BuildOptions options;
    options.device = device;
    options.only_operator = info->name;
    options.only_implementation = implementation->name;
    ThreadPool& pool = pool_of(threads);
    Sweep all;
    size_t cases = info->cases().size();
    for (DType dtype : dtypes) {
      for (size_t i = 0; i < cases; ++i) {
        const Problem& problem = problem_of(*info, i, dtype);
        std::unique_ptr<Node> node = info->build(problem.init, options);
        for (Placement placement : placements) {
          if (placement == Placement::kStridedRows && !problem.has_rows()) continue;
          Verdict verdict = examine(problem, subject_of(*node), placement, pool, device);
          all.add(verdict);
          for (const std::string& fault : verdict.faults)
            ADD_FAILURE() << fmt::format("{} by {} on {}, {}, case '{}' ({}), {}, {} threads: {}", info->name,
                                         implementation->name, device_name(device), dtype_name(dtype), problem.label,
                                         fields_text(problem.init), placement_name(placement), threads, fault);
        }
      }
    }
    for (const auto& [why, times] : all.refusals) RecordProperty("refused", fmt::format("{} times: {}", times, why));
    return all;
  }

  // In f64 a composition would be compared with itself; in f16 it calls what was compared on its own, and
  // SlowNeedNoOracleInDTypesOfModels compares it once more.
  static std::span<const DType> dtypes_of(const Entry& entry) {
    if (entry.device != kCpu) return kCudaDTypes;
    return entry.info->level > 1 ? std::span(kModelDTypes).first(2) : std::span<const DType>(kAllFloats);
  }

  Sweep sweep_placements(std::span<const DType> dtypes, std::span<const Placement> placements = kPlacements) {
    return sweep(dtypes, placements, GetParam().device == kCpu ? 2 : 1);
  }

  // Empty if all is well.
  std::string fault_of(const Sweep& all) const {
    std::string fault = all.fault();
    return fault.empty() ? fault
                         : fmt::format("{} by {}: {}", GetParam().info->name, GetParam().implementation->name, fault);
  }
};

// In bf16, and in f32 where nothing is aligned; all else where it takes neither. OtherDTypes is the rest.
TEST_P(Implementations, AgreeWithTheOracle) {
  const std::span<const DType> dtypes = dtypes_of(GetParam());
  const Sweep first = sweep_placements(dtypes.first(1)),
              second = sweep_placements(dtypes.subspan(1, 1), kMisalignedOnly);
  if (first.examined + second.examined > 0) return;
  EXPECT_EQ(fault_of(sweep_placements(dtypes)), "");
}

class OtherDTypes : public Implementations {};

// A kernel may refuse all of them: that it takes some call is tested above.
TEST_P(OtherDTypes, SlowAgreeWithTheOracle) {
  const std::span<const DType> dtypes = dtypes_of(GetParam());
  sweep_placements(dtypes.subspan(1, 1));
  sweep_placements(dtypes.subspan(2));
}

// Their parts are in the fast set.
class LayersAndModels : public Implementations {};

TEST_P(LayersAndModels, SlowAgreeWithTheOracle) { EXPECT_EQ(fault_of(sweep_placements(dtypes_of(GetParam()))), ""); }

// Oracles are slow and read memory in only one way, so they are not tested with all placements and dtypes.
class Oracles : public Implementations {};

TEST_P(Oracles, SlowKeepTheContract) {
  EXPECT_EQ(sweep(std::span(kAllFloats).subspan(1, 2), std::span(kPlacements).first(1), 2).fault(), "");
  sweep(std::span(kAllFloats).first(1), std::span(kPlacements).last(2), 2);
}

// Oracles and other devices use no threads.
class ThreadedImplementations : public Implementations {};

TEST_P(ThreadedImplementations, SlowAgreeOnOneAndThreeThreads) {
  for (int threads : {1, 3}) sweep(std::span(kModelDTypes).first(2), std::span(kPlacements).first(1), threads);
}

std::string entry_name(const testing::TestParamInfo<Entry>& entry) {
  return test_name(fmt::format("{}_by_{}{}", entry.param.info->name, entry.param.implementation->name,
                               entry.param.device == kCpu ? "" : "_on_cuda"));
}
INSTANTIATE_TEST_SUITE_P(Registry, Implementations, testing::ValuesIn(entries(devices(), Which::kKernelsAndBlocks)),
                         entry_name);
INSTANTIATE_TEST_SUITE_P(Registry, OtherDTypes, testing::ValuesIn(entries(devices(), Which::kKernelsAndBlocks)),
                         entry_name);
INSTANTIATE_TEST_SUITE_P(Registry, LayersAndModels, testing::ValuesIn(entries(devices(), Which::kLayersAndModels)),
                         entry_name);
INSTANTIATE_TEST_SUITE_P(Registry, Oracles, testing::ValuesIn(entries(std::span(&kCpu, 1), Which::kOracles)),
                         entry_name);
INSTANTIATE_TEST_SUITE_P(Registry, ThreadedImplementations,
                         testing::ValuesIn(entries(std::span(&kCpu, 1), Which::kKernelsAndBlocks)), entry_name);
INSTANTIATE_TEST_SUITE_P(LayersAndModels, ThreadedImplementations,
                         testing::ValuesIn(entries(std::span(&kCpu, 1), Which::kLayersAndModels)), entry_name);

struct Place {
  const OperatorInfo* info;
  Device device;
};
void PrintTo(const Place& p, std::ostream* os) { *os << p.info->name << " on " << device_name(p.device); }

std::vector<Place> places() {
  std::vector<Place> list;
  for (Device device : devices())
    for (const OperatorInfo* info : Registry::instance().operators()) list.push_back({info, device});
  return list;
}

class Operators : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
    if (std::string why = not_on_device(*GetParam().info, GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }
};

// On the CPU the oracle is last in every list, so a call that no kernel supports still works, but a thousand times
// slower. No call in a dtype of models may use it, on any level of the tree. Other devices have no oracle: there such a
// call is an error.
TEST_P(Operators, SlowNeedNoOracleInDTypesOfModels) {
  const OperatorInfo& info = *GetParam().info;
  const Device device = GetParam().device;
  BuildOptions options;
  options.device = device;
  size_t cases = info.cases().size();
  for (DType dtype : device == kCpu ? std::span<const DType>(kModelDTypes) : std::span<const DType>(kCudaDTypes)) {
    for (size_t i = 0; i < cases; ++i) {
      const Problem& problem = problem_of(info, i, dtype);
      for (Placement placement : kPlacements) {
        if (placement == Placement::kStridedRows && !problem.has_rows()) continue;
        std::unique_ptr<Node> node = info.build(problem.init, options);
        Verdict verdict = examine(problem, subject_of(*node), placement, pool_of(2), device);
        EXPECT_EQ(verdict.refusal, "");
        for (const std::string& fault : verdict.faults)
          ADD_FAILURE() << fmt::format("{} on {}, {}, case '{}', {}: {}", info.name, device_name(device),
                                       dtype_name(dtype), problem.label, placement_name(placement), fault);
        for (const DispatchCount& count : collect_dispatches(*node))
          ASSERT_NE(count.implementation, "oracle")
              << fmt::format("{}, {}, case '{}', {}: {} was left to its oracle", info.name, dtype_name(dtype),
                             problem.label, placement_name(placement), count.op);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Operators, testing::ValuesIn(places()), [](const auto& p) {
  return test_name(std::string(p.param.info->name) + (p.param.device == kCpu ? "" : "_on_cuda"));
});

TEST(Registry, IsNotEmpty) { EXPECT_GE(Registry::instance().operators().size(), 14u); }

}  // namespace
}  // namespace fk::conformance
