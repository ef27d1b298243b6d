// Operators that cannot have every workload: an image always has the same number of patches.
#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/l2/siglip_vision_embeddings.h"
#include "validate/judge.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

TEST(PossibleWorkload, HasTheOperatorsOwnLengths) {
  const OperatorInfo& vision = Registry::instance().at("siglip_vision_model");
  OperatorInfo::ErasedCase c = vision.cases().front();
  Workload ragged = Workload::batch({{5, 0}, {1, 7}, {30, 0}});
  EXPECT_EQ(vision.possible(c.init, ragged), image_workload(3, 16));
  EXPECT_EQ(vision.possible(c.init, c.workload), c.workload);
  // However little time the oracle may take.
  EXPECT_EQ(shrink(vision, c.init, image_workload(8, 16), 0), image_workload(1, 16));
  // Others can have any.
  const OperatorInfo& norm = Registry::instance().at("rms_norm");
  EXPECT_EQ(norm.possible(norm.default_init(), ragged), ragged);
}

TEST(PossibleWorkload, OthersAreRefusedBeforeAnythingIsCalled) {
  const OperatorInfo& vision = Registry::instance().at("siglip_vision_model");
  OperatorInfo::ErasedCase c = vision.cases().front();
  EXPECT_THROW(Judge(vision, c.init, Workload::batch({{5, 0}}), {}), Error);
}

}  // namespace
}  // namespace fk::validate
