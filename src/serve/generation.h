// Generation: runs the choices of one request on the engine, and answers it whole or as a stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "serve/answer_format.h"
#include "serve/generation_job.h"
#include "serve/http.h"
#include "serve/mailbox.h"
#include "serve/metrics.h"
#include "serve/served_model.h"

namespace fk {

// What a generation uses; all of it outlives the server.
struct GenerationTools {
  Engine& engine;
  const ServedModel& model;
  Metrics& metrics;
  std::shared_ptr<Mailbox> mailbox;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // `work` is kept until all choices have ended: while it exists, the server is not idle.
  Generation(GenerationTools tools, GenerationJob job, ReplyPtr reply, std::shared_ptr<void> work,
             std::chrono::steady_clock::time_point arrival);

  // Submits all choices; the answer comes later. Throws what Engine::submit throws, and then answers nothing.
  void start();
  // Ends it with 503, unless it is answered already.
  void shut_down();

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Choice {
    RequestId id = 0;
    size_t prompt = 0;
    ChoicePart part;  // whole answers: all of it; streams: what was not sent yet
    ToolCallReader calls{ToolCallForm::kNone};
    int64_t tokens = 0, cached_tokens = 0;
    size_t text_offset = 0;
    Time last_token = {};
    Time first_token = {};
    bool submitted = false, ended = false;
  };

  void take(size_t index, RequestOutput output, Time when);
  void take_prompt(Choice& choice, RequestOutput& output);
  void take_text(Choice& choice, const RequestOutput& output);
  void count(Choice& choice, const RequestOutput& output, Time when);
  void stream(Choice& choice);
  void stream_prompt(Choice& choice);
  void write_chunk(const ChoicePart& part);
  void end_choice(Choice& choice, const RequestOutput& output);
  void fail(const class ApiError& error);
  void answer();
  void cancel_all();
  void note_access();

  Json usage() const;
  Json frame(std::string_view object, Json choices) const;
  Json logprobs_of(const ChoicePart& part) const;
  Json prompt_logprobs_of(size_t prompt) const;

  GenerationTools tools_;
  GenerationJob job_;
  ReplyPtr reply_;
  std::shared_ptr<void> work_;
  Time arrival_;
  std::vector<Choice> choices_;
  // Log-probabilities of the prompts, which the first choice of each asks for; nothing until they have come.
  std::vector<std::optional<std::vector<DrawnLogprobs>>> prompts_;
  size_t ended_ = 0;
  bool answered_ = false;
};

}  // namespace fk
