// Mutation: an honest kernel with an inserted fraud of a chosen strength.
//
// The texts are parts in tests/attack/cpu and tests/attack/cuda: an honest kernel for each operator, and frauds that
// are written once for all of them. A kernel is honest until its calls look like timed ones, so that the checks of the
// timer are tested, not only the judge.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/scenarios/scenario.h"
#include "core/device.h"

namespace fk::attack {

// What is attacked: an operator on one workload.
struct Target {
  std::string name;  // "rms_norm bf16"
  std::string class_name;
  Scenario scenario;
};

// The scale of strengths between the weakest and the strongest.
enum class Scale { kLinear, kRatio, kInteger };

struct Kind {
  std::string name;  // of its part: fraud_{name}.part.in
  std::string what;  // in a few words
  std::string unit;  // of the strength; "%" where it is a share
  double least = 0, most = 1;
  Scale scale = Scale::kRatio;
  std::vector<std::string> targets;       // names of targets it is tried on
  bool cold = false;                      // timed with cold caches
  std::vector<std::string> defines = {};  // of the fraud and of its honest twin
};

const std::vector<Target>& targets(DeviceKind device);
const std::vector<Kind>& kinds(DeviceKind device);
const Target& target_named(DeviceKind device, std::string_view name);
const Kind& kind_named(DeviceKind device, std::string_view name);

// Half way between two strengths, on the kind's scale.
double between(const Kind& kind, double low, double high);
std::string strength_text(const Kind& kind, double strength);  // "12.5 %", "30 us"

// The source of the fraud, and of the honest kernel it is compared with.
std::string fraud_source(const Kind& kind, const Target& target, double strength);
std::string twin_source(const Kind& kind, const Target& target);

}  // namespace fk::attack
