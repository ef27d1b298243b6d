// Diffusion language models on the command line: denoise, other verbs that take them, and verbs that do not.
#include <gtest/gtest.h>

#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

Arguments tiny_llada(const std::string& verb, const Arguments& more) {
  Arguments arguments = {verb, "--model", "tiny-llada", "--load-format", "dummy"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(DenoiseVerb, FillsTextsThatDoNotDependOnTheBatch) {
  const Arguments given = {"--prompt-token-ids",
                           "5,17,99",
                           "--max-tokens",
                           "12",
                           "--block-length",
                           "4",
                           "--steps",
                           "6",
                           "--dtype",
                           "f32",
                           "--json"};
  Outcome outcome = run_program(tiny_llada("denoise", given));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json one = parse_json(outcome.out, "output");
  EXPECT_EQ(one["passes"], 6);
  EXPECT_EQ(one["results"][0]["token_ids"].size(), 12u);
  Arguments both = given;
  both.insert(both.end(), {"--prompt-token-ids", "7,8,9,10"});
  outcome = run_program(tiny_llada("denoise", both));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(parse_json(outcome.out, "output")["results"][0], one["results"][0]);
}

TEST(DenoiseVerb, SlowOtherVerbsTakeTheModelOrSayWhatDoes) {
  Outcome ttft = run_program(tiny_llada("ttft", {"--prompt-tokens", "20", "--iters", "1", "--json"}));
  EXPECT_EQ(ttft.exit_code, 0) << ttft.err;
  Outcome graph = run_program({"graph", "--model", "tiny-llada"});
  EXPECT_EQ(graph.exit_code, 0) << graph.err;
  EXPECT_NE(graph.out.find("encoder_only_attention"), std::string::npos);
  for (const Arguments& arguments : {tiny_llada("generate", {"--prompt-token-ids", "5"}),
                                     tiny_llada("encode", {"--prompt-token-ids", "5"}), tiny_llada("serve", {})}) {
    Outcome refused = run_program(arguments);
    EXPECT_EQ(refused.exit_code, 1) << arguments[0];
    EXPECT_NE(refused.err.find("run it with fastkernels denoise"), std::string::npos) << arguments[0] << refused.err;
  }
}

TEST(DenoiseVerb, RefusesInOneSentence) {
  struct Wrong {
    Arguments arguments;
    int exit_code;
    std::string words;
  };
  for (const Wrong& wrong :
       {Wrong{tiny_llada("denoise", {}), 2, "Give a --prompt or --prompt-token-ids"},
        Wrong{tiny_llada("denoise", {"--prompt-token-ids", "5", "--max-tokens", "512"}), 1, "shorten one of them"},
        Wrong{tiny_llada("denoise", {"--prompt-token-ids", "5", "--temperature", "-1"}), 2, "--temperature"},
        Wrong{tiny_llada("denoise", {"--prompt-token-ids", "311"}), 1, "mask token"},
        Wrong{{"denoise", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-token-ids", "5"},
              1,
              "run it with fastkernels generate"}}) {
    Outcome outcome = run_program(wrong.arguments);
    EXPECT_EQ(outcome.exit_code, wrong.exit_code) << wrong.words << outcome.err;
    EXPECT_NE(outcome.err.find(wrong.words), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace fk
