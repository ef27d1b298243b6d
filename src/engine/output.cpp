#include "engine/output.h"

#include <fmt/format.h>

#include <algorithm>

namespace fk {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kTimeout:
      return "timeout";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

void RequestOutput::append(RequestOutput next) {
  tokens.insert(tokens.end(), next.tokens.begin(), next.tokens.end());
  text += next.text;
  std::move(next.logprobs.begin(), next.logprobs.end(), std::back_inserter(logprobs));
  std::move(next.prompt_logprobs.begin(), next.prompt_logprobs.end(), std::back_inserter(prompt_logprobs));
  finish = next.finish;
  stop_reason = std::move(next.stop_reason);
  error = std::move(next.error);
  cached_tokens = next.cached_tokens;
}

OutputText::OutputText(const Tokenizer* tokenizer, const Request& request) : request_(request) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, request.skip_special_tokens);
}

std::string OutputText::decoded(int64_t token) {
  return decoder_ ? decoder_->step(static_cast<int32_t>(token)) : fmt::format("<{}>", token);
}

OutputText::Step OutputText::add(int64_t token) {
  ++tokens_;
  const bool may_stop = tokens_ >= request_.min_tokens;
  const std::vector<int64_t>& ends = request_.stop_tokens;
  // A stop token is one more than the tokens of the text.
  if (!request_.ignore_eos && tokens_ > request_.min_tokens &&
      std::find(ends.begin(), ends.end(), token) != ends.end()) {
    Step step = finish(FinishReason::kStop);
    if (step.stop_reason.empty()) step.stop_reason = fmt::format("{}", token);
    return step;
  }
  Step step;
  std::string text = decoded(token);
  if (!may_stop)
    held_ += text;
  else if (cut(text, step))
    return step;
  if (tokens_ >= request_.max_tokens) {
    Step last = finish(FinishReason::kLength);
    last.text = step.text + last.text;
    return last;
  }
  release(held_.size() - may_begin_stop(), step);
  return step;
}

OutputText::Step OutputText::finish(FinishReason reason) {
  Step step{.text = {}, .finish = reason, .stop_reason = {}};
  std::string rest = decoder_ ? decoder_->finish() : "";
  const bool may_stop =
      tokens_ >= request_.min_tokens && (reason == FinishReason::kStop || reason == FinishReason::kLength);
  if (!may_stop)
    held_ += rest;
  else if (cut(rest, step))
    return step;
  release(held_.size(), step);
  return step;
}

bool OutputText::cut(const std::string& text, Step& step) {
  // What was there before holds no whole stop string, or one that did not count yet.
  const size_t before = held_.size();
  held_ += text;
  size_t begin = held_.npos, end = held_.npos;
  const std::string* found = nullptr;
  for (const std::string& stop : request_.stop) {
    if (stop.empty()) continue;
    size_t first = before + 1 > stop.size() ? before + 1 - stop.size() : 0;
    size_t at = held_.find(stop, first);
    if (at == held_.npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      begin = at;
      end = at + stop.size();
      found = &stop;
    }
  }
  if (found == nullptr) return false;
  release(begin, step);
  held_.clear();
  step.finish = FinishReason::kStop;
  step.stop_reason = *found;
  return true;
}

size_t OutputText::may_begin_stop() const {
  size_t longest = 0;
  for (const std::string& stop : request_.stop)
    for (size_t n = std::min(stop.empty() ? 0 : stop.size() - 1, held_.size()); n > longest; --n)
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) {
        longest = n;
        break;
      }
  return longest;
}

void OutputText::release(size_t bytes, Step& step) {
  step.text.append(held_, 0, bytes);
  held_.erase(0, bytes);
}

}  // namespace fk
