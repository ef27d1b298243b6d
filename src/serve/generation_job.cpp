#include "serve/generation_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <random>

#include "core/json.h"
#include "serve/api_error.h"
#include "serve/fields.h"

namespace fk {
namespace {

constexpr size_t kMaxStops = 16;

SamplingParams read_sampling(const ServedModel& model, const Json& body) {
  Fields fields(body);
  SamplingParams s = model.defaults;
  s.temperature = fields.number("temperature", s.temperature, 0, 2);
  s.top_p = fields.number("top_p", s.top_p, 0, 1);
  if (s.top_p == 0) throw ApiError(400, "'top_p' must be above 0 and at most 1.", "top_p", "invalid_value");
  s.min_p = fields.number("min_p", s.min_p, 0, 1);
  s.top_k = std::max<int64_t>(0, fields.whole("top_k", s.top_k, -1, INT32_MAX));  // -1 and 0: all
  s.presence_penalty = fields.number("presence_penalty", s.presence_penalty, -2, 2);
  s.frequency_penalty = fields.number("frequency_penalty", s.frequency_penalty, -2, 2);
  // Logits are divided by it: much smaller ones would make them infinite.
  s.repetition_penalty = fields.number("repetition_penalty", s.repetition_penalty, 0.01, 100);
  if (const Json* bias = fields.find("logit_bias")) {
    auto wrong = [] {
      return ApiError(
          400, "'logit_bias' must be an object of token ids with numbers from -100 to 100, as {\"50256\": -100}.",
          "logit_bias", "invalid_value");
    };
    if (!bias->is_object()) throw wrong();
    for (const auto& [key, value] : bias->items()) {
      bool digits = !key.empty() && key.size() < 10 &&
                    std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!digits || !value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) throw wrong();
      int64_t token = std::stoll(key);
      check_token_ids(model, {token}, "logit_bias");
      s.logit_bias.emplace_back(token, value.get<float>());
    }
  }
  return s;
}

void read_stops(GenerationJob& job, const ServedModel& model, const Fields& fields) {
  Request& request = job.request;
  request.stop = fields.texts("stop", kMaxStops);
  request.stop_tokens = fields.token_ids("stop_token_ids");
  check_token_ids(model, request.stop_tokens, "stop_token_ids");
  // ignore_eos is about the model's own end, not about tokens that the request names.
  bool ignore_eos = fields.boolean("ignore_eos", false);
  if (!ignore_eos)
    request.stop_tokens.insert(request.stop_tokens.end(), model.end_tokens.begin(), model.end_tokens.end());
  request.ignore_eos = ignore_eos && request.stop_tokens.empty();
  request.min_tokens = fields.whole("min_tokens", 0, 0, INT64_MAX);
  request.skip_special_tokens = fields.boolean("skip_special_tokens", true);
  fields.refuse("include_stop_str_in_output", "a stop string is never part of the text.");
}

}  // namespace

void read_common_fields(GenerationJob& job, const ServedModel& model, const Json& body, const JobLimits& limits) {
  check_model_name(model, body);
  Fields fields(body);
  job.created = std::time(nullptr);
  job.model = fields.text("model").value_or(model.names.front());
  job.request.sampling = read_sampling(model, body);
  read_stops(job, model, fields);
  job.n = fields.whole("n", 1, 1, 128);
  if (std::optional<int64_t> best = fields.whole("best_of", 1, 128); best && *best != job.n)
    throw ApiError(400, "'best_of' is not supported: it must be missing or equal to n.", "best_of",
                   "unsupported_value");
  if (const Json* seed = fields.find("seed")) {
    std::optional<int64_t> number = whole_number(*seed);
    if (!number && seed->is_number_unsigned()) number = static_cast<int64_t>(seed->get<uint64_t>());
    if (!number) throw ApiError(400, "'seed' must be a whole number of 64 bits.", "seed", "invalid_value");
    job.seed = static_cast<uint64_t>(*number);
  }
  job.stream = fields.boolean("stream", false);
  if (const Json* options = fields.find("stream_options")) {
    if (!options->is_object())
      throw ApiError(400, "'stream_options' must be an object, as {\"include_usage\": true}.", "stream_options",
                     "invalid_value");
    if (!job.stream)
      throw ApiError(400, "'stream_options' needs 'stream' to be true.", "stream_options", "invalid_value");
    job.include_usage = Fields(*options).boolean("include_usage", false);
  }
  job.tokens_as_ids = fields.boolean("return_tokens_as_token_ids", false);
  fields.refuse("use_beam_search", "tokens are drawn one by one.");
  if (fields.number("length_penalty", 1, -1e9, 1e9) != 1)
    fields.refuse_any("length_penalty", "tokens are drawn one by one; leave it out, or 1.");
  fields.refuse_any("allowed_token_ids", "any token may be drawn; 'logit_bias' makes some more likely.");
  fields.refuse("bad_words", "words cannot be kept out; 'logit_bias' of -100 keeps out a token.");
  fields.refuse("logits_processors", "the server runs no code of a request.");
  fields.refuse_any("truncate_prompt_tokens", "a prompt is read whole; shorten it before it is sent.");
  if (std::optional<int64_t> top = fields.whole("prompt_logprobs", 0, 20)) {
    if (job.stream)
      throw ApiError(400,
                     "'prompt_logprobs' has no place in a stream: leave 'stream' out, or use 'echo' and 'logprobs'.",
                     "prompt_logprobs", "invalid_value");
    job.prompt_logprobs = job.request.prompt_logprobs = static_cast<int>(*top);
  }
  for (const char* guided : {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"})
    fields.refuse_any(guided, "outputs cannot be forced into a form.");
  if (const Json* format = fields.find("response_format"))
    if (!format->is_object() || !format->contains("type") || (*format)["type"] != "text")
      throw ApiError(400, "'response_format' must be {\"type\": \"text\"}: outputs cannot be forced into a form.",
                     "response_format", "unsupported_value");
  if (limits.timeout) job.request.deadline = std::chrono::steady_clock::now() + *limits.timeout;
  if (static_cast<int64_t>(job.choices()) > limits.max_choices)
    throw ApiError(
        400,
        fmt::format("The request asks for {} outputs ({} prompt{} with n = {}), but at most {} can wait and run.",
                    job.choices(), job.prompts.size(), job.prompts.size() == 1 ? "" : "s", job.n, limits.max_choices),
        "n", "invalid_value");
}

void set_max_tokens(GenerationJob& job, const ServedModel& model, std::optional<int64_t> asked,
                    std::optional<int64_t> otherwise) {
  int64_t longest = 0;
  for (const std::vector<int64_t>& prompt : job.prompts) {
    if (prompt.empty()) throw ApiError(400, "The prompt has no tokens; send at least one.", "prompt", "invalid_value");
    longest = std::max(longest, static_cast<int64_t>(prompt.size()));
  }
  int64_t room = model.max_model_len - longest;
  if (room < (asked == 0 ? 0 : 1))
    throw ApiError(400,
                   fmt::format("This model's maximum context length is {} tokens, but the prompt has {}; shorten it.",
                               model.max_model_len, longest),
                   "prompt", "context_length_exceeded");
  int64_t wanted = asked ? *asked : std::min(otherwise.value_or(room), room);
  if (wanted > room)
    throw ApiError(
        400,
        fmt::format("This model's maximum context length is {} tokens, but {} were requested: {} of the "
                    "prompt and {} of the output; reduce one of them.",
                    model.max_model_len, static_cast<double>(longest) + static_cast<double>(wanted), longest, wanted),
        "max_tokens", "context_length_exceeded");
  job.request.max_tokens = wanted;
  if (job.request.min_tokens > wanted)
    throw ApiError(400, fmt::format("'min_tokens' must be at most max_tokens, which is {}.", wanted), "min_tokens",
                   "invalid_value");
}

std::string random_id() {
  static std::mutex mutex;
  static std::mt19937_64 random{std::random_device{}()};
  std::lock_guard lock(mutex);
  uint64_t high = random();
  return fmt::format("{:016x}{:016x}", high, random());
}

}  // namespace fk
