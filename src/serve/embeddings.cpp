#include "serve/embeddings.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/json.h"
#include "serve/api_error.h"
#include "serve/fields.h"
#include "track/base64.h"

namespace fk {
namespace {

constexpr size_t kMaxTexts = 2048;

std::string answer_text(const EmbeddingJob& job, const std::vector<Embedding>& vectors, int64_t tokens) {
  Json data = Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    const auto* bytes = reinterpret_cast<const char*>(vectors[i].data());
    Json embedding = job.base64 ? Json(to_base64({bytes, vectors[i].size() * sizeof(float)})) : Json(vectors[i]);
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(embedding)}});
  }
  return dump_json({{"object", "list"},
                    {"data", std::move(data)},
                    {"model", job.model},
                    {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}},
                   -1);
}

}  // namespace

EmbeddingJob read_embedding(const ServedModel& model, const Json& body) {
  check_model_name(model, body);
  Fields fields(body);
  EmbeddingJob job;
  job.model = fields.text("model").value_or(model.names.front());
  std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw ApiError(400, "'encoding_format' must be \"float\" or \"base64\".", "encoding_format", "invalid_value");
  job.base64 = format == "base64";
  fields.refuse_any("dimensions", "vectors have the length that the model gives them.");
  fields.refuse_any("truncate_prompt_tokens", "an input is read whole; shorten it before it is sent.");
  Inputs inputs = read_inputs(body, "input", kMaxTexts);
  for (const std::string& text : inputs.texts) job.texts.push_back(encode_text(model, text, true));
  for (std::vector<int64_t>& ids : inputs.ids) {
    check_token_ids(model, ids, "input");
    job.texts.push_back(std::move(ids));
  }
  for (const std::vector<int64_t>& text : job.texts) {
    if (text.empty()) throw ApiError(400, "An input has no tokens; send at least one.", "input", "invalid_value");
    if (static_cast<int64_t>(text.size()) > model.max_model_len)
      throw ApiError(400,
                     fmt::format("This model's maximum context length is {} tokens, but an input has {}; shorten it.",
                                 model.max_model_len, text.size()),
                     "input", "context_length_exceeded");
  }
  return job;
}

void answer_embedding(EmbeddingJob job, EmbeddingQueue& queue, const std::shared_ptr<Mailbox>& mailbox,
                      const ReplyPtr& reply, const std::shared_ptr<void>& work, Metrics& metrics) {
  const auto arrival = std::chrono::steady_clock::now();
  int64_t tokens = 0;
  for (const std::vector<int64_t>& text : job.texts) tokens += static_cast<int64_t>(text.size());
  reply->access.prompt_tokens = tokens;
  std::vector<std::vector<int64_t>> texts = std::move(job.texts);
  queue.submit(std::move(texts), [=, &metrics](EmbeddingResult result) {
    mailbox->post([=, &metrics, result = std::move(result)] {
      static_cast<void>(work);
      const char* reason = !result.error.empty() ? "error" : reply->client_gone() ? "abort" : "stop";
      ++metrics.finished[reason];
      if (result.error.empty()) {
        metrics.e2e_latency.add(std::chrono::duration<double>(std::chrono::steady_clock::now() - arrival).count());
        metrics.prompt_length.add(static_cast<double>(tokens));
      }
      if (!result.error.empty()) return reply->send(ApiError(500, result.error).response());
      reply->send({.body = answer_text(job, result.vectors, tokens)});
    });
  });
}

}  // namespace fk
