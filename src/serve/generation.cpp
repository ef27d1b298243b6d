#include "serve/generation.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/json.h"
#include "serve/api_error.h"
#include "serve/sse.h"

namespace fk {
namespace {

double seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// vLLM's words in request_success_total.
const char* finished_reason(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kError:
      return "error";
    default:
      return "abort";
  }
}

}  // namespace

Generation::Generation(GenerationTools tools, GenerationJob job, ReplyPtr reply, std::shared_ptr<void> work,
                       Time arrival)
    : tools_(std::move(tools)),
      job_(std::move(job)),
      reply_(std::move(reply)),
      work_(std::move(work)),
      arrival_(arrival),
      choices_(job_.choices()),
      prompts_(job_.prompts.size()) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].part.index = i;
    choices_[i].prompt = i / static_cast<size_t>(job_.n);
    choices_[i].calls = ToolCallReader(job_.tool_calls);
  }
}

void Generation::start() {
  uint64_t seed = job_.seed ? *job_.seed : (uint64_t{std::random_device{}()} << 32 | std::random_device{}());
  try {
    for (size_t i = 0; i < choices_.size(); ++i) {
      Request request = job_.request;
      request.prompt = job_.prompts[choices_[i].prompt];
      // Choices differ, and the first one is that of the same request with n = 1.
      request.sampling.seed = seed + i;
      if (i % static_cast<size_t>(job_.n) != 0) request.prompt_logprobs.reset();
      choices_[i].id = tools_.engine.submit(
          std::move(request), [self = shared_from_this(), i, box = tools_.mailbox](RequestOutput output) {
            auto now = std::chrono::steady_clock::now();
            box->post([self, i, now, output = std::move(output)]() mutable { self->take(i, std::move(output), now); });
          });
      choices_[i].submitted = true;
    }
  } catch (...) {
    answered_ = true;  // by the caller
    cancel_all();
    throw;
  }
  reply_->access.request_id = job_.id;
  // Not owned by the callback: the engine's sinks own this until all choices have ended.
  reply_->on_client_gone([weak = weak_from_this()] {
    if (auto self = weak.lock(); self && self->reply_) {
      ++self->tools_.metrics.client_gone;
      self->note_access();
      self->answered_ = true;
      self->cancel_all();
    }
  });
  if (!job_.stream || answered_) return;
  HttpResponse head{.type = std::string(kEventStream)};
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}, {"X-Request-Id", job_.id}};
  reply_->begin_stream(std::move(head));
  for (const Choice& choice : choices_) {
    Json first = job_.format->first_choice(choice.part.index);
    if (!first.is_null())
      reply_->write(sse_event(dump_json(frame(job_.format->chunk_object(), Json::array({std::move(first)})), -1)));
    if (!job_.echo.empty() && !job_.echo_logprobs)
      write_chunk({.index = choice.part.index, .text = job_.echo[choice.prompt]});
  }
}

void Generation::take(size_t index, RequestOutput output, Time when) {
  Choice& choice = choices_[index];
  if (choice.ended) return;
  count(choice, output, when);
  take_prompt(choice, output);
  take_text(choice, output);
  for (DrawnLogprobs& one : output.logprobs) choice.part.logprobs.push_back(std::move(one));
  choice.part.finish = output.finish;
  choice.part.stop_reason = output.stop_reason;
  // As in vLLM: the model's own end is no stop that a request has named.
  for (int64_t end : tools_.model.end_tokens)
    if (output.stop_reason == std::to_string(end)) choice.part.stop_reason.clear();
  bool ends = output.finish != FinishReason::kNone;
  if (ends) end_choice(choice, output);
  if (!answered_ && output.finish == FinishReason::kTimeout)
    fail(ApiError(504, "The request took longer than --request-timeout allows.", "", "timeout"));
  else if (!answered_ && output.finish == FinishReason::kError)
    fail(ApiError(500, output.error.empty() ? "The request failed." : output.error));
  else if (!answered_ && output.finish == FinishReason::kCancelled)
    shut_down();
  if (!answered_ && job_.stream) stream(choice);
  if (ended_ == choices_.size()) {
    if (!answered_) answer();
    work_ = nullptr;
    reply_ = nullptr;
  }
}

void Generation::take_prompt(Choice& choice, RequestOutput& output) {
  std::optional<std::vector<DrawnLogprobs>>& known = prompts_[choice.prompt];
  if (!job_.request.prompt_logprobs || known || choice.part.index % static_cast<size_t>(job_.n) != 0) return;
  const bool ends_well = output.finish == FinishReason::kStop || output.finish == FinishReason::kLength;
  if (output.finish != FinishReason::kNone && !ends_well) return;
  known = std::move(output.prompt_logprobs);
  if (!job_.stream || !job_.echo_logprobs || answered_) return;
  for (int64_t i = 0; i < job_.n; ++i) stream_prompt(choices_[choice.part.index + static_cast<size_t>(i)]);
}

// The prompt, and what the choice has drawn meanwhile.
void Generation::stream_prompt(Choice& choice) {
  const std::string& text = job_.echo[choice.prompt];
  write_chunk({.index = choice.part.index,
               .text = text,
               .prompt = job_.prompts[choice.prompt],
               .prompt_logprobs = *prompts_[choice.prompt]});
  choice.text_offset = text_length(text);
  stream(choice);
}

void Generation::take_text(Choice& choice, const RequestOutput& output) {
  auto take = [&](ReadText read) {
    choice.part.text += read.text;
    choice.part.has_called |= !read.calls.empty();
    std::move(read.calls.begin(), read.calls.end(), std::back_inserter(choice.part.calls));
  };
  take(choice.calls.add(output.text));
  if (output.finish != FinishReason::kNone) take(choice.calls.finish());
}

void Generation::count(Choice& choice, const RequestOutput& output, Time when) {
  auto drawn = static_cast<int64_t>(output.tokens.size());
  choice.cached_tokens = std::max(choice.cached_tokens, output.cached_tokens);
  if (drawn == 0) return;
  if (choice.tokens == 0) {
    tools_.metrics.time_to_first_token.add(seconds(when - arrival_));
    choice.first_token = when;
  } else {
    tools_.metrics.inter_token_latency.add(seconds(when - choice.last_token) / static_cast<double>(drawn),
                                           static_cast<uint64_t>(drawn));
  }
  choice.last_token = when;
  choice.tokens += drawn;
}

void Generation::end_choice(Choice& choice, const RequestOutput& output) {
  choice.ended = true;
  ++ended_;
  Metrics& metrics = tools_.metrics;
  ++metrics.finished[finished_reason(output.finish)];
  if (output.finish != FinishReason::kStop && output.finish != FinishReason::kLength) return;
  metrics.e2e_latency.add(seconds(std::chrono::steady_clock::now() - arrival_));
  metrics.prompt_length.add(static_cast<double>(job_.prompts[choice.prompt].size()));
  metrics.generation_length.add(static_cast<double>(choice.tokens));
  if (choice.tokens > 1)
    metrics.time_per_output_token.add(seconds(choice.last_token - choice.first_token) /
                                      static_cast<double>(choice.tokens - 1));
}

void Generation::stream(Choice& choice) {
  ChoicePart& part = choice.part;
  if (job_.echo_logprobs && !prompts_[choice.prompt]) return;
  if (part.text.empty() && part.calls.empty() && part.logprobs.empty() && part.finish == FinishReason::kNone) return;
  part.text_offset = choice.text_offset;
  choice.text_offset += text_length(part.text);
  write_chunk(part);
  part.text.clear();
  part.first_call += part.calls.size();
  part.calls.clear();
  part.logprobs.clear();
}

void Generation::write_chunk(const ChoicePart& part) {
  Json chunk = job_.format->chunk_choice(part, logprobs_of(part));
  reply_->write(sse_event(dump_json(frame(job_.format->chunk_object(), Json::array({std::move(chunk)})), -1)));
}

void Generation::answer() {
  answered_ = true;
  note_access();
  if (job_.stream) {
    if (job_.include_usage) {
      Json last = frame(job_.format->chunk_object(), Json::array());
      last["usage"] = usage();
      reply_->write(sse_event(dump_json(last, -1)));
    }
    reply_->write(kStreamEnd);
    return reply_->finish();
  }
  Json choices = Json::array();
  for (Choice& choice : choices_) {
    if (job_.echo_logprobs) {
      choice.part.prompt = job_.prompts[choice.prompt];
      choice.part.prompt_logprobs = *prompts_[choice.prompt];
    }
    Json logprobs = logprobs_of(choice.part);
    if (!job_.echo.empty()) choice.part.text.insert(0, job_.echo[choice.prompt]);
    choices.push_back(job_.format->choice(choice.part, logprobs));
    if (job_.prompt_logprobs && job_.format->prompt_logprobs_in_choice())
      choices.back()["prompt_logprobs"] = prompt_logprobs_of(choice.prompt);
  }
  Json whole = frame(job_.format->object(), std::move(choices));
  if (job_.prompt_logprobs && !job_.format->prompt_logprobs_in_choice())
    whole["prompt_logprobs"] = prompt_logprobs_of(0);
  whole["usage"] = usage();
  reply_->send({.body = dump_json(whole, -1), .headers = {{"X-Request-Id", job_.id}}});
}

// The answer is an error: of a whole answer its status, of a stream that has begun an event, as OpenAI's clients read
// it.
void Generation::fail(const ApiError& error) {
  note_access();
  answered_ = true;
  if (job_.stream) {
    reply_->write(sse_event(error.json()));
    reply_->write(kStreamEnd);
    reply_->finish();
  } else {
    reply_->send(error.response());
  }
  cancel_all();
}

void Generation::shut_down() {
  if (!answered_) fail(ApiError(503, "The server is shutting down.", "", "shutting_down"));
}

void Generation::cancel_all() {
  for (Choice& choice : choices_)
    if (choice.submitted && !choice.ended) tools_.engine.cancel(choice.id);
}

void Generation::note_access() {
  int64_t prompt = 0, drawn = 0;
  for (const std::vector<int64_t>& ids : job_.prompts) prompt += static_cast<int64_t>(ids.size());
  for (const Choice& choice : choices_) drawn += choice.tokens;
  reply_->access.prompt_tokens = prompt;
  reply_->access.completion_tokens = drawn;
  reply_->access.finish_reason = finish_word(choices_.front().part.finish);
}

Json Generation::usage() const {
  int64_t prompt = 0, drawn = 0, cached = 0;
  for (const std::vector<int64_t>& ids : job_.prompts) prompt += static_cast<int64_t>(ids.size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    drawn += choices_[i].tokens;
    if (i % static_cast<size_t>(job_.n) == 0) cached += choices_[i].cached_tokens;  // a prompt counts once
  }
  return {{"prompt_tokens", prompt},
          {"total_tokens", prompt + drawn},
          {"completion_tokens", drawn},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json Generation::frame(std::string_view object, Json choices) const {
  Json json = {{"id", job_.id},
               {"object", object},
               {"created", job_.created},
               {"model", job_.model},
               {"choices", std::move(choices)}};
  if (job_.stream && job_.include_usage) json["usage"] = nullptr;
  return json;
}

Json Generation::logprobs_of(const ChoicePart& part) const {
  if (!job_.request.logprobs || (part.logprobs.empty() && part.prompt.empty())) return nullptr;
  return job_.format->logprobs(tools_.model, part, *job_.request.logprobs, job_.tokens_as_ids);
}

Json Generation::prompt_logprobs_of(size_t prompt) const {
  return prompt_logprobs_json(tools_.model, *prompts_[prompt], *job_.prompt_logprobs);
}

}  // namespace fk
