// The verb graph: tables, JSON, CSV and DOT, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/json.h"
#include "tests/cli/csv.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

TEST(GraphVerb, PrintsBodiesWithSymbolicSizes) {
  Outcome outcome = run_program({"graph", "--model", "tiny-llama"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part :
       {"tiny-llama: 25 kernel calls of one prefill pass", "(9) llama_decoder_layer, level 3, once",
        "llama_decoder_layer (9): residual_out", "bf16 [T, 64]", "silu_and_mul", "f32 [L, 320]", "slice [:, 64:96]"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  // At level 3 a layer is one line.
  std::string layers = run_program({"graph", "--model", "tiny-llama", "--level", "3"}).out;
  EXPECT_EQ(layers.find("silu_and_mul"), std::string::npos) << layers;
  EXPECT_NE(layers.find("model.layers.1"), std::string::npos) << layers;
}

TEST(GraphVerb, JsonCsvAndDotHoldTheSameCalls) {
  Json json = parse_json(run_program({"graph", "--model", "tiny-siglip", "--json"}).out, "output");
  EXPECT_EQ(json["phase"], "encode");
  EXPECT_EQ(json["bodies"].back()["op"], "siglip_vision_model");
  auto records = parse_csv(run_program({"graph", "--model", "tiny-siglip", "--csv"}).out);
  EXPECT_EQ(records[0][0], "body");
  EXPECT_EQ(std::count_if(records.begin(), records.end(), [](const auto& r) { return r[4] == "conv2d"; }), 1);
  std::string dot = run_program({"graph", "--model", "tiny-siglip", "--dot"}).out;
  EXPECT_EQ(dot.rfind("digraph \"tiny-siglip\" {", 0), 0u);
  EXPECT_NE(dot.find("conv2d"), std::string::npos);
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

TEST(GraphVerb, MistakesAreSentences) {
  for (const Arguments& arguments :
       {Arguments{"graph"}, Arguments{"graph", "--model", "tiny-llama", "--phase", "later"},
        Arguments{"graph", "--model", "tiny-llama", "--level", "5"},
        Arguments{"graph", "--model", "tiny-llama", "--dot", "--json"},
        Arguments{"graph", "--model", "tiny-siglip", "--phase", "decode"}}) {
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(run_program({"graph", "--model", "no-such-model"}).exit_code, 1);
}

}  // namespace
}  // namespace fk
