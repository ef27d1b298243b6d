// Suggestions for a mistyped name: near ones, nearest first, and no distant ones.
#include "core/closest.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

const std::vector<std::string> kNames = {"rms_norm", "gemma_rms_norm", "rotary_emb", "linear", "softmax", "sample"};

TEST(ClosestNames, FindsMistypedAndPartialNames) {
  EXPECT_EQ(closest_names("linaer", kNames), std::vector<std::string>{"linear"});
  EXPECT_EQ(closest_names("rmsnorm", kNames).front(), "rms_norm");
  EXPECT_EQ(closest_names("rotary", kNames), std::vector<std::string>{"rotary_emb"});
  EXPECT_EQ(closest_names("norm", kNames), (std::vector<std::string>{"gemma_rms_norm", "rms_norm"}));
  EXPECT_EQ(closest_names("norm", kNames, 1).size(), 1u);
}

TEST(ClosestNames, SaysNothingWhereNothingIsNear) {
  EXPECT_TRUE(closest_names("flash_attn_decode", kNames).empty());
  EXPECT_TRUE(closest_names("", kNames).empty());
  EXPECT_TRUE(closest_names("linear", {}).empty());
  EXPECT_EQ(did_you_mean("convolution", kNames), ";");
}

TEST(DidYouMean, ReadsAsPartOfASentence) {
  EXPECT_EQ(did_you_mean("linaer", kNames), ", did you mean linear?");
  EXPECT_EQ(did_you_mean("norm", kNames), ", did you mean gemma_rms_norm or rms_norm?");
}

}  // namespace
}  // namespace fk
