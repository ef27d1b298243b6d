#include "bench/eval/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"

namespace fk {
namespace {

// A prompt must have a first and a last chunk, and an output a step that feeds a drawn token.
constexpr int64_t kLeastTokens = 4;
constexpr int64_t kSmallestScale = 256;

int64_t scaled(int64_t tokens, EvalScale scale) {
  return std::max(kLeastTokens, tokens * scale.numerator / scale.denominator);
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 1 || value > (1 << 20)) return std::nullopt;
  return value;
}

}  // namespace

std::string EvalScale::text() const {
  return denominator == 1 ? std::to_string(numerator) : fmt::format("{}/{}", numerator, denominator);
}

EvalScale parse_scale(std::string_view text) {
  size_t slash = std::min(text.find('/'), text.size());
  std::optional<int64_t> numerator = whole_number(text.substr(0, slash)), denominator = 1;
  if (slash < text.size()) denominator = whole_number(text.substr(slash + 1));
  if (!numerator || !denominator || *numerator > *denominator)
    throw UsageError("--scale takes 1 or a fraction such as 1/16, not '{}'", text);
  return {*numerator, *denominator};
}

std::vector<EvalWorkload> eval_workloads(Task task, EvalScale scale) {
  std::vector<EvalWorkload> workloads;
  if (is_encoder(task))
    workloads = {
        {"batch-32-long", true, 512, 0, 32}, {"batch-32-short", true, 128, 0, 32}, {"single-input", false, 128, 0, 1}};
  else if (task == Task::kDiffusionLM)
    workloads = {
        {"batch-8-long", true, 512, 128, 8}, {"batch-8-short", true, 128, 128, 8}, {"single-text", false, 128, 128, 1}};
  else
    workloads = {{"prefill-heavy", true, 1024, 512, 0},
                 {"balanced", true, 512, 512, 0},
                 {"decode-heavy", true, 512, 1024, 0},
                 {"single-request", false, 128, 128, 1},
                 {"fixed-batch-32", false, 128, 128, 32}};
  for (EvalWorkload& w : workloads) {
    w.input_tokens = scaled(w.input_tokens, scale);
    if (w.output_tokens > 0) w.output_tokens = scaled(w.output_tokens, scale);
    if (task == Task::kDiffusionLM) w.steps = std::ssize(denoise_steps(denoise_options(w)));
  }
  return workloads;
}

EvalScale fitting_scale(Task task, int64_t context, std::string_view model) {
  for (EvalScale scale; scale.denominator <= kSmallestScale; scale.denominator *= 2) {
    std::vector<EvalWorkload> workloads = eval_workloads(task, scale);
    if (std::all_of(workloads.begin(), workloads.end(), [&](const EvalWorkload& w) { return w.length() <= context; }))
      return scale;
  }
  throw Error("{} has a context of {} tokens, too few for any workload of an evaluation.", model, context);
}

DenoiseOptions denoise_options(const EvalWorkload& w) {
  constexpr int64_t kBlock = 32, kTokensPerStep = 4;
  return {.gen_length = w.output_tokens,
          .block_length = kBlock,
          .steps = std::max<int64_t>(1, w.output_tokens / kTokensPerStep)};
}

std::string eval_category(Task task) {
  switch (task) {
    case Task::kCausalLM:
      return "llm";
    case Task::kTextEncoder:
      return "text-encoder";
    case Task::kImageEncoder:
      return "image-encoder";
    case Task::kDiffusionLM:
      return "diffusion";
    case Task::kDraftHead:
      return "draft-head";
  }
  return "";
}

}  // namespace fk
