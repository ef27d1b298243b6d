// LiveRequest: a request that has not ended, and what is known of its output.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/logit_edits.h"
#include "engine/output.h"
#include "engine/request.h"
#include "engine/sampler.h"

namespace fk {

class LiveRequest {
 public:
  LiveRequest(RequestId id, Request request, OutputSink sink, const Tokenizer* tokenizer, int64_t vocab_size);
  LiveRequest(const LiveRequest&) = delete;
  LiveRequest& operator=(const LiveRequest&) = delete;

  RequestId id() const { return id_; }
  void set_id(RequestId id) { id_ = id; }
  const Request& request() const { return request_; }
  std::span<const int64_t> tokens() const {  // of the prompt, and those drawn
    return std::span(tokens_).first(tokens_.size() - guesses_);
  }
  // The same with guesses of the tokens after them, which the next call or add() removes.
  std::span<const int64_t> tokens_with(std::span<const int64_t> guesses);
  int64_t drawn() const { return text_.tokens(); }
  // Of the next token, or of one that is drawn after `guesses` more.
  SampledRow sampled_row(int64_t guesses = 0) const {
    return {&request_.sampling, drawn() + pending + guesses, edits_.entries()};
  }
  // What it draws next depends on tokens that the host must know (penalties), or the host wants to see the logits.
  bool needs_host() const { return request_.logprobs || !edits_.entries().empty() || drawn() + pending == 0; }
  // Its tokens may be guessed: what is drawn after a guess is what would be drawn after the same token, since the seed
  // and the number of tokens decide a draw. False where the guess itself would change the logits.
  bool speculates() const;

  // Adds a drawn token. `logits` is the row it was drawn from, where log-probabilities are asked for.
  RequestOutput add(int64_t token, std::span<const float> logits);
  RequestOutput finish(FinishReason reason, const std::string& error);
  // Log-probabilities of the next tokens of its prompt. The first output has all of them.
  void add_prompt_logprobs(std::span<DrawnLogprobs> next);
  int64_t known_prompt_logprobs() const { return std::ssize(prompt_logprobs_); }
  // False if the client's function threw.
  bool send(RequestOutput output) const;

  // Its own memory comes nearer; what it points to does not.
  void prefetch() const {
    constexpr size_t kLine = 64;
    for (size_t at = 0; at < sizeof(LiveRequest); at += kLine)
      __builtin_prefetch(reinterpret_cast<const char*>(this) + at);
  }

  int64_t cached_tokens = 0;
  int64_t pending = 0;  // tokens drawn by steps in flight

 private:
  void take(OutputText::Step& step, RequestOutput& output) const;

  RequestId id_;
  const Request request_;
  const OutputSink sink_;
  std::vector<int64_t> tokens_;
  size_t guesses_ = 0;  // at the end of tokens_
  OutputText text_;
  LogitEdits edits_;
  std::vector<DrawnLogprobs> prompt_logprobs_;
};

}  // namespace fk
