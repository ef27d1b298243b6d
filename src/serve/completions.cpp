// /v1/completions: reading a request, and how a choice is written.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/json.h"
#include "serve/answer_format.h"
#include "serve/api_error.h"
#include "serve/fields.h"
#include "serve/generation_job.h"

namespace fk {
namespace {

constexpr size_t kMaxPrompts = 2048;

class CompletionFormat final : public AnswerFormat {
 public:
  std::string_view object() const override { return "text_completion"; }
  std::string_view chunk_object() const override { return "text_completion"; }

  Json choice(const ChoicePart& part, const Json& logprobs) const override {
    return {{"index", part.index},
            {"text", part.text},
            {"logprobs", logprobs},
            {"finish_reason", finish_reason_json(part.finish)},
            {"stop_reason", stop_reason_json(part.stop_reason)}};
  }
  Json chunk_choice(const ChoicePart& part, const Json& logprobs) const override { return choice(part, logprobs); }
  Json first_choice(size_t) const override { return nullptr; }

  Json logprobs(const ServedModel& model, const ChoicePart& part, int top, bool tokens_as_ids) const override {
    Json offsets = Json::array(), values = Json::array(), tokens = Json::array(), tops = Json::array();
    size_t offset = part.text_offset;
    auto add = [&](std::string name, Json value, Json best) {
      offsets.push_back(offset);
      offset += text_length(name);
      values.push_back(std::move(value));
      tokens.push_back(std::move(name));
      tops.push_back(std::move(best));
    };
    auto add_token = [&](const DrawnLogprobs& drawn) {
      std::string name = token_name(model, drawn.drawn.token, tokens_as_ids);
      Json best = Json::object();
      for (size_t i = 0; i < std::min(drawn.top.size(), static_cast<size_t>(top)); ++i)
        best.emplace(token_name(model, drawn.top[i].token, tokens_as_ids), finite_logprob(drawn.top[i].logprob));
      // As in OpenAI's API the drawn token is always among them.
      best.emplace(name, finite_logprob(drawn.drawn.logprob));
      add(std::move(name), finite_logprob(drawn.drawn.logprob), std::move(best));
    };
    if (!part.prompt.empty()) add(token_name(model, part.prompt.front(), tokens_as_ids), nullptr, nullptr);
    std::for_each(part.prompt_logprobs.begin(), part.prompt_logprobs.end(), add_token);
    std::for_each(part.logprobs.begin(), part.logprobs.end(), add_token);
    return {{"text_offset", offsets}, {"token_logprobs", values}, {"tokens", tokens}, {"top_logprobs", tops}};
  }
  bool prompt_logprobs_in_choice() const override { return true; }
};

const CompletionFormat g_completion_format;

}  // namespace

const AnswerFormat& kCompletionFormat = g_completion_format;

GenerationJob read_completion(const ServedModel& model, const Json& body, const JobLimits& limits) {
  Fields fields(body);
  Inputs inputs = read_inputs(body, "prompt", kMaxPrompts);
  GenerationJob job;
  job.id = "cmpl-" + random_id();
  job.format = &kCompletionFormat;
  job.prompts.resize(inputs.texts.size() + inputs.ids.size());
  read_common_fields(job, model, body, limits);

  bool special = fields.boolean("add_special_tokens", true);
  for (size_t i = 0; i < inputs.texts.size(); ++i) job.prompts[i] = encode_text(model, inputs.texts[i], special);
  for (const std::vector<int64_t>& ids : inputs.ids) check_token_ids(model, ids, "prompt");
  if (!inputs.ids.empty()) job.prompts = std::move(inputs.ids);

  if (std::optional<int64_t> top = fields.whole("logprobs", 0, 20)) job.request.logprobs = static_cast<int>(*top);
  if (fields.boolean("echo", false)) {
    job.echo_logprobs = job.request.logprobs.has_value();
    if (job.echo_logprobs)
      job.request.prompt_logprobs = std::max(*job.request.logprobs, job.request.prompt_logprobs.value_or(0));
    job.echo = std::move(inputs.texts);
    if (job.echo.empty())
      for (const std::vector<int64_t>& ids : job.prompts) job.echo.push_back(decode_tokens(model, ids, true));
  }
  fields.refuse("suffix", "outputs follow their prompt.");
  set_max_tokens(job, model, fields.whole("max_tokens", 0, INT64_MAX), 16);
  return job;
}

}  // namespace fk
