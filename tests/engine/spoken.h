// Spoken: all that a request got from an engine, for tests that compare two runs of it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/request.h"

namespace fk {

struct Spoken {
  std::vector<int64_t> tokens;
  std::vector<DrawnLogprobs> logprobs;
  std::string text, stop_reason, error;
  FinishReason finish = FinishReason::kNone;
  int ends = 0;

  void add(RequestOutput output) {
    EXPECT_EQ(ends, 0) << "an output after the last one";
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    logprobs.insert(logprobs.end(), output.logprobs.begin(), output.logprobs.end());
    text += output.text;
    if (output.finish == FinishReason::kNone) return;
    finish = output.finish;
    stop_reason = output.stop_reason;
    error = output.error;
    ++ends;
  }
};

inline void expect_same(const std::vector<Spoken>& a, const std::vector<Spoken>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << "request " << i;
    EXPECT_EQ(a[i].text, b[i].text) << "request " << i;
    EXPECT_EQ(a[i].finish, b[i].finish) << "request " << i << ": " << a[i].error << b[i].error;
    EXPECT_EQ(a[i].stop_reason, b[i].stop_reason) << "request " << i;
    ASSERT_EQ(a[i].logprobs.size(), b[i].logprobs.size()) << "request " << i;
    for (size_t j = 0; j < a[i].logprobs.size(); ++j) {
      EXPECT_EQ(a[i].logprobs[j].drawn.token, b[i].logprobs[j].drawn.token);
      EXPECT_NEAR(a[i].logprobs[j].drawn.logprob, b[i].logprobs[j].drawn.logprob, 1e-4);
    }
  }
}

}  // namespace fk
