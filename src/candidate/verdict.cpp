#include "candidate/verdict.h"

#include <array>
#include <cstddef>

namespace fk {
namespace {
constexpr std::array<std::string_view, 18> kNames = {
    "PASSED",        "INCORRECT_SHAPE",  "INCORRECT_DTYPE", "INCORRECT_NUMERICAL", "INCORRECT_STATE", "INPUT_MUTATED",
    "OUT_OF_BOUNDS", "NONDETERMINISTIC", "REWARD_HACK",     "IMPOSSIBLE_TIME",     "TAMPERED",        "TIMEOUT",
    "CRASHED",       "OUT_OF_MEMORY",    "BUILD_ERROR",     "SIGNATURE_MISMATCH",  "INVALID_TASK",    "REFUSED"};
static_assert(kNames.size() == static_cast<size_t>(Verdict::kRefused) + 1);
}  // namespace

std::string_view verdict_name(Verdict v) { return kNames[static_cast<size_t>(v)]; }

std::optional<Verdict> verdict_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Verdict>(i);
  return std::nullopt;
}

}  // namespace fk
