#include "engine/live_request.h"

#include <algorithm>
#include <iterator>

#include "engine/log_probabilities.h"

namespace fk {
namespace {

// Stop tokens that must not be drawn before min_tokens. Ids that a config names and the model lacks are left out.
std::vector<int64_t> masked_tokens(const Request& request, int64_t vocab_size) {
  std::vector<int64_t> masked;
  if (request.min_tokens > 0 && !request.ignore_eos)
    for (int64_t token : request.stop_tokens)
      if (token >= 0 && token < vocab_size) masked.push_back(token);
  return masked;
}

}  // namespace

LiveRequest::LiveRequest(RequestId id, Request request, OutputSink sink, const Tokenizer* tokenizer, int64_t vocab_size)
    : id_(id),
      request_(std::move(request)),
      sink_(std::move(sink)),
      tokens_(request_.prompt),
      text_(tokenizer, request_),
      edits_(request_.sampling, request_.prompt, masked_tokens(request_, vocab_size)) {
  // A server's clients may ask for the whole context and end after a few tokens.
  constexpr int64_t kMostReserved = 512;
  tokens_.reserve(request_.prompt.size() + static_cast<size_t>(std::min(request_.max_tokens, kMostReserved)));
}

std::span<const int64_t> LiveRequest::tokens_with(std::span<const int64_t> guesses) {
  tokens_.resize(tokens_.size() - guesses_);
  tokens_.insert(tokens_.end(), guesses.begin(), guesses.end());
  guesses_ = guesses.size();
  return tokens_;
}

bool LiveRequest::speculates() const {
  const SamplingParams& p = request_.sampling;
  const bool counts_tokens = p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
  const bool masks_tokens = request_.min_tokens > 0 && !request_.ignore_eos && !request_.stop_tokens.empty();
  return !counts_tokens && !masks_tokens;
}

RequestOutput LiveRequest::add(int64_t token, std::span<const float> logits) {
  tokens_.resize(tokens_.size() - std::exchange(guesses_, 0));
  tokens_.push_back(token);
  edits_.drawn(token);
  OutputText::Step step = text_.add(token);
  if (drawn() == request_.min_tokens) edits_.unmask();
  RequestOutput output;
  output.id = id_;
  output.tokens.push_back(token);
  take(step, output);
  if (request_.logprobs) output.logprobs.push_back(log_probabilities(logits, token, *request_.logprobs));
  if (!prompt_logprobs_.empty()) output.prompt_logprobs = std::exchange(prompt_logprobs_, {});
  return output;
}

RequestOutput LiveRequest::finish(FinishReason reason, const std::string& error) {
  OutputText::Step step = text_.finish(reason);
  RequestOutput output;
  output.id = id_;
  output.error = error;
  take(step, output);
  output.prompt_logprobs = std::exchange(prompt_logprobs_, {});
  return output;
}

void LiveRequest::add_prompt_logprobs(std::span<DrawnLogprobs> next) {
  prompt_logprobs_.insert(prompt_logprobs_.end(), std::move_iterator(next.begin()), std::move_iterator(next.end()));
}

void LiveRequest::take(OutputText::Step& step, RequestOutput& output) const {
  output.text = std::move(step.text);
  output.finish = step.finish;
  output.stop_reason = std::move(step.stop_reason);
  output.cached_tokens = cached_tokens;
}

bool LiveRequest::send(RequestOutput output) const {
  try {
    if (sink_) sink_(std::move(output));
    return true;
  } catch (...) {
    return false;  // a client that cannot take its output must not end the others'
  }
}

}  // namespace fk
