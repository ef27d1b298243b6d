// Constructor arguments as fields: both directions, and what is refused.
#include "ops/fields.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "ops/l1/linear.h"
#include "ops/l2/llama_attention.h"

namespace fk {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FieldsOfInit, GoBothWays) {
  Linear::Init init{.in_features = 3, .out_features = 5, .bias = true, .output_sizes = {2, 3}, .dtype = DType::kF16};
  Fields fields = to_fields(init);
  EXPECT_EQ(to_fields(from_fields<Linear::Init>(fields)), fields);
  EXPECT_EQ(std::get<std::string>(*find_field(fields, "dtype")), "f16");
  // With a struct inside.
  Fields nested = to_fields(LlamaAttention::Init{});
  EXPECT_EQ(to_fields(from_fields<LlamaAttention::Init>(nested)), nested);
}

TEST(FieldsOfInit, AnIntegerIsAlsoAReal) {
  Fields fields = to_fields(LlamaAttention::Init{});
  ASSERT_TRUE(set_field(fields, "rope_theta", int64_t{500000}));
  EXPECT_EQ(from_fields<LlamaAttention::Init>(fields).rope_theta, 500000.0);
}

TEST(FieldsOfInit, MistakesAreNamed) {
  auto read = [](const Fields& fields) { return [=] { from_fields<Linear::Init>(fields); }; };
  EXPECT_THAT(read({{"in_feature", int64_t{3}}}),
              ThrowsMessage<Error>(HasSubstr("no constructor argument 'in_feature'; there are in_features,")));
  EXPECT_THAT(read({{"in_features", int64_t{3}}, {"in_features", int64_t{4}}}),
              ThrowsMessage<Error>(HasSubstr("given twice")));
  EXPECT_THAT(read({{"in_features", 3.5}}), ThrowsMessage<Error>(HasSubstr("'in_features' has a value of the wrong")));
  EXPECT_THAT(read({{"dtype", std::string("bf17")}}), ThrowsMessage<Error>(HasSubstr("must be a dtype")));
}

}  // namespace
}  // namespace fk
