// Outputs that differ as the baseline's own do are aligned; larger and rarer differences are found.
#include "bench/eval/alignment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bench/eval/logits_reference.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/rng.h"

namespace fk {
namespace {

constexpr double kEpsilon = 0x1p-7;

// Errors around `scale`, and choices that are all the same.
PositionErrors errors_of(double scale, size_t count, const char* name) {
  PositionErrors errors;
  Stream random(5, name);
  for (size_t i = 0; i < count; ++i) {
    errors.errors.push_back(static_cast<float>(scale * (0.5 + random.uniform(i))));
    errors.margins.push_back(0);
  }
  return errors;
}

TEST(EvalAlignment, AsNoisyAsTheBaseline) {
  AlignmentLimits limits = limits_of_noise(errors_of(0.02, 500, "noise"), {}, kEpsilon);
  EXPECT_TRUE(judge_alignment(errors_of(0.03, 4000, "candidate"), limits).aligned());
  EXPECT_FALSE(judge_alignment(errors_of(0.1, 4000, "candidate"), limits).aligned());
}

TEST(EvalAlignment, WithoutNoiseTheDTypeIsTheLimit) {
  AlignmentLimits limits = limits_of_noise(errors_of(0, 500, "noise"), {}, kEpsilon);
  EXPECT_TRUE(judge_alignment(errors_of(0.5 * kEpsilon, 4000, "candidate"), limits).aligned());
  EXPECT_FALSE(judge_alignment(errors_of(3 * kEpsilon, 4000, "candidate"), limits).aligned());
  EXPECT_TRUE(judge_alignment(errors_of(0, 4000, "candidate"), limits_of_noise({}, {}, kEpsilon)).aligned());
}

TEST(EvalAlignment, OtherRoundingOfADeepModelIsAllowed) {
  AlignmentLimits limits = limits_of_noise(errors_of(0, 500, "noise"), errors_of(0.04, 500, "rounding"), kEpsilon);
  EXPECT_TRUE(judge_alignment(errors_of(0.02, 4000, "candidate"), limits).aligned());
  EXPECT_FALSE(judge_alignment(errors_of(0.1, 4000, "candidate"), limits).aligned());
}

TEST(EvalAlignment, FewWrongPositionsAreFound) {
  AlignmentLimits limits = limits_of_noise(errors_of(0.001, 500, "noise"), {}, kEpsilon);
  PositionErrors errors = errors_of(0.001, 4000, "candidate");
  for (size_t i = 0; i < 20; ++i) errors.errors[i * 200] = 0.3F;
  EXPECT_FALSE(judge_alignment(errors, limits).aligned());
}

TEST(EvalAlignment, ChoicesFarBelowTheBestAreFound) {
  AlignmentLimits limits = limits_of_noise(errors_of(0.001, 500, "noise"), {}, kEpsilon);
  PositionErrors errors = errors_of(0.001, 4000, "candidate");
  for (size_t i = 0; i < 20; ++i) errors.margins[i] = 0.001F;  // a tie, broken in another way
  Alignment ties = judge_alignment(errors, limits);
  EXPECT_TRUE(ties.aligned());
  EXPECT_NEAR(ties.agreement, 1 - 20.0 / 4000, 1e-9);
  for (size_t i = 0; i < 20; ++i) errors.margins[i] = 0.5F;
  EXPECT_FALSE(judge_alignment(errors, limits).aligned());
}

TEST(EvalAlignment, RareLargeNoiseDoesNotRaiseTheLimit) {
  // Experts that change places: 2 % of the baseline's own positions are far off.
  PositionErrors noise = errors_of(0.001, 1000, "noise");
  for (size_t i = 0; i < 20; ++i) noise.errors[i * 50] = 0.4F;
  AlignmentLimits limits = limits_of_noise(noise, {}, kEpsilon);
  PositionErrors errors = errors_of(0.001, 1000, "candidate");
  for (size_t i = 0; i < 25; ++i) errors.errors[i * 40] = 0.4F;
  EXPECT_TRUE(judge_alignment(errors, limits).aligned());
  for (size_t i = 0; i < 200; ++i) errors.errors[i * 5] = 0.4F;
  EXPECT_FALSE(judge_alignment(errors, limits).aligned());
}

TEST(EvalAlignment, NothingAndNanAreNotAligned) {
  AlignmentLimits limits = limits_of_noise({}, {}, kEpsilon);
  EXPECT_FALSE(judge_alignment({}, limits).aligned());
  PositionErrors errors = errors_of(0, 100, "candidate");
  for (size_t i = 0; i < 10; ++i) errors.errors[i] = std::nanf("");
  EXPECT_FALSE(judge_alignment(errors, limits).aligned());
}

TEST(LogitsReference, KeepsAndCompares) {
  std::vector<float> logits(300);
  Stream random(1, "logits");
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(random.normal(i));
  auto best = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  LogitsReference made(1, 2, 7);
  for (int64_t step : {0, 1}) made.set(0, step, logits, static_cast<int64_t>(best));
  std::string path = std::filesystem::temp_directory_path() / ("fk_logits_" + std::to_string(getpid()));
  made.write(path);
  LogitsReference reference = LogitsReference::read(path);
  EXPECT_EQ(reference.token(0, 1), static_cast<int64_t>(best));
  PositionErrors same, moved, scaled;
  reference.compare(0, 0, logits, same);
  EXPECT_EQ(same.errors[0], 0);
  EXPECT_EQ(same.margins[0], 0);
  std::vector<float> other = logits;
  for (float& x : other) x *= 1.02F;  // the same choice
  reference.compare(0, 1, other, scaled);
  EXPECT_GT(scaled.errors[0], 0.01);
  EXPECT_EQ(scaled.margins[0], 0);
  other = logits;
  other[(best + 1) % other.size()] = 100;
  reference.compare(0, 1, other, moved);
  EXPECT_GT(moved.margins[0], 0.1);
  EXPECT_EQ(token_margin(logits, static_cast<int64_t>(best)), 0);
  EXPECT_TRUE(std::isnan(token_margin(logits, 300)));
  write_file(path, "short");
  EXPECT_THROW(LogitsReference::read(path), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace fk
