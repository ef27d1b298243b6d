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
  std::span<const int64_t> tokens() const { return tokens_; }  // of the prompt, and those drawn
  int64_t drawn() const { return text_.tokens(); }
  SampledRow sampled_row() const { return {&request_.sampling, drawn() + pending, edits_.entries()}; }
  // What it draws next depends on tokens that the host must know (penalties), or the host wants to see the logits.
  bool needs_host() const { return request_.logprobs || !edits_.entries().empty() || drawn() + pending == 0; }

  // Adds a drawn token. `logits` is the row it was drawn from, where log-probabilities are asked for.
  RequestOutput add(int64_t token, std::span<const float> logits);
  RequestOutput finish(FinishReason reason, const std::string& error);
  // False if the client's function threw.
  bool send(RequestOutput output) const;

  int64_t cached_tokens = 0;
  int64_t pending = 0;  // tokens drawn by steps in flight

 private:
  void take(OutputText::Step& step, RequestOutput& output) const;

  RequestId id_;
  const Request request_;
  const OutputSink sink_;
  std::vector<int64_t> tokens_;
  OutputText text_;
  LogitEdits edits_;
};

}  // namespace fk
