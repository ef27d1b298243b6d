// OutputText: the text of a request as its tokens come, and where it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "models/tokenizer.h"

namespace fk {

class OutputText {
 public:
  // Without a tokenizer the text of token 7 is "<7>". Both must outlive it.
  OutputText(const Tokenizer* tokenizer, const Request& request);

  struct Step {
    std::string text;  // that became final: no later token can change it
    FinishReason finish = FinishReason::kNone;
    std::string stop_reason;
  };

  // Adds a drawn token. The text ends at a stop token, where the first stop string is complete, and after max_tokens.
  // Of several stop strings that are complete at the same character the longest counts.
  Step add(int64_t token);
  // The rest of the text of a request that ends for another reason.
  Step finish(FinishReason reason);

  int64_t tokens() const { return tokens_; }

 private:
  std::string decoded(int64_t token);
  // Adds text and cuts it at a stop string. True if there was one.
  bool cut(const std::string& text, Step& step);
  // Bytes at the end of held_ that may be the beginning of a stop string.
  size_t may_begin_stop() const;
  void release(size_t bytes, Step& step);

  const Request& request_;
  std::optional<StreamDecoder> decoder_;
  std::string held_;  // text not given out yet
  int64_t tokens_ = 0;
};

}  // namespace fk
