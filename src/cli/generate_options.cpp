#include "cli/generate_options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/prompt.h"
#include "core/error.h"
#include "engine/sampler.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

// More than any model can read; a device or a pipe may have no end.
constexpr size_t kLargestPrompt = size_t{64} << 20;

std::string limited_text(std::istream& in, const std::string& what) {
  std::string text;
  char block[65536];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<size_t>(in.gcount()));
    if (text.size() > kLargestPrompt)
      throw Error("{} has more than {} MiB; no model reads such a prompt.", what, kLargestPrompt >> 20);
  }
  return text;
}

// The text of a file without the end of its last line; "-" is standard input.
std::string read_prompt(const std::string& path) {
  std::string text;
  if (path == "-") {
    text = limited_text(std::cin, "Standard input");
  } else {
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
      throw Error("The prompt file {} cannot be read.", in_quotes(path));
    text = limited_text(file, "The prompt file " + in_quotes(path));
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty())
    throw Error("{} is empty; a prompt needs at least one character.",
                path == "-" ? "Standard input" : "The prompt file " + in_quotes(path));
  return text;
}

}  // namespace

void GenerateOptions::add_flags(FlagSet& flags) {
  Flag& text = flags.option("--prompt", prompt_texts_, "Text to continue; several run together as one batch");
  flags
      .option("--prompt-file", prompt_files_,
              "File whose whole text is a prompt, without the end of its last line; several likewise; -: stdin")
      .type_name("FILE");
  flags
      .option("--prompt-token-ids", prompt_ids_,
              "Instead: token ids to continue, separated by commas; several likewise")
      .type_name("ID,ID,...")
      .excludes(text);
  add_chat_options(flags, chat_);
  flags.option("--max-tokens", max_tokens_, "Tokens to generate at most").range(0, int64_t{1} << 24).show_default();
  flags.option("--min-tokens", min_tokens_, "Tokens before which the text does not end")
      .range(0, int64_t{1} << 24)
      .show_default();
  flags.option("--n", samples_, "Texts for each prompt; the i-th has the seed plus i, from 0 on")
      .range(1, 1024)
      .show_default();
  temperature_flag_ =
      &flags.option("--temperature", sampling_.temperature, "0 picks the most likely token").show_default();
  top_k_flag_ = &flags.option("--top-k", sampling_.top_k, "Draw from the k most likely; 0: all")
                     .range(0, int64_t{1} << 24)
                     .show_default();
  top_p_flag_ =
      &flags.option("--top-p", sampling_.top_p, "Sample from the smallest set of tokens with this total probability")
           .show_default();
  min_p_flag_ = &flags.option("--min-p", sampling_.min_p, "Drop tokens less likely than this share of the likeliest")
                     .show_default();
  repetition_flag_ = &flags
                          .option("--repetition-penalty", sampling_.repetition_penalty,
                                  "Divides positive logits of tokens of the prompt and the text, multiplies negative "
                                  "ones; 1: none")
                          .show_default();
  flags
      .option("--presence-penalty", sampling_.presence_penalty,
              "Subtracted from the logits of tokens that the text has already")
      .show_default();
  flags.option("--frequency-penalty", sampling_.frequency_penalty, "The same, as often as the text has the token")
      .show_default();
  flags.option("--stop", stop_, "Text ends before this string; several likewise").type_name("TEXT");
  flags.option("--stop-token-ids", stop_token_ids_, "Tokens that end the text, beside the model's own").type_name("ID");
  flags.flag("--ignore-eos", ignore_eos_, "Go on after the end of the text");
  logprobs_flag_ =
      &flags.option("--logprobs", logprobs_, "Log-probabilities of the tokens and of this many of the most likely")
           .range(0, 1024)
           .type_name("N");
  prompt_logprobs_flag_ =
      &flags
           .option("--prompt-logprobs", prompt_logprobs_,
                   "The same of the tokens of the prompt, and its perplexity; --max-tokens 0: only that")
           .range(0, 1024)
           .type_name("N");
  flags
      .option("--generation-config", generation_config_,
              "auto: sampling as the checkpoint's generation_config.json has it where do_sample is true and no flag "
              "says otherwise; none: flags and their defaults only")
      .one_of({"auto", "none"})
      .show_default();
}

void GenerateOptions::check(uint64_t seed, int64_t ranks) {
  sampling_.seed = seed;
  check_sampling_params(sampling_);
  for (const std::string& text : prompt_texts_)
    if (text.empty()) throw UsageError("The prompt is empty; give it at least one character.");
  for (const std::string& text : stop_)
    if (text.empty()) throw UsageError("A --stop string is empty; give it at least one character.");
  for (const std::string& ids : prompt_ids_) parse_token_ids(ids);
  if (max_tokens_ == 0 && !prompt_logprobs_flag_->given())
    throw UsageError("--max-tokens 0 generates nothing; it is for --prompt-logprobs.");
  if (min_tokens_ > max_tokens_)
    throw UsageError("--min-tokens {} is more than --max-tokens {}; lower it.", min_tokens_, max_tokens_);
  const bool has_text = !prompt_texts_.empty() || !prompt_files_.empty();
  if (has_text && has_ids()) throw UsageError("Give prompts either as text or as --prompt-token-ids, not both.");
  check_chat_options(chat_, has_text, has_ids());
  if (!has_text && !has_ids() && !chat_.wanted()) throw UsageError("Give a --prompt or --prompt-token-ids.");
  const auto from_stdin = std::count(prompt_files_.begin(), prompt_files_.end(), "-") +
                          (chat_.messages == "-" ? 1 : 0) + (chat_.tools == "-" ? 1 : 0);
  if (from_stdin > 1) throw UsageError("Only one thing can be read from standard input.");
  // The other ranks run the same command line, and have no standard input.
  if (from_stdin > 0 && ranks > 1)
    throw UsageError("With --tp {} nothing can be read from standard input; give a file.", ranks);
}

std::vector<GivenPrompt> GenerateOptions::prompts(const std::optional<Tokenizer>& tokenizer, const ModelSource& source,
                                                  const ModelOptions& model) {
  for (int64_t id : stop_token_ids_)
    if (const int64_t size = source.config.facts.vocab_size; id < 0 || id >= size)
      throw UsageError("--stop-token-ids {} is no token of {}, which has {}; give one from 0 to {}.", id, source.name,
                       size, size - 1);
  std::vector<GivenPrompt> prompts;
  for (const std::string& ids : prompt_ids_) prompts.push_back({"", parse_token_ids(ids)});
  std::vector<std::string> texts = prompt_texts_;
  for (const std::string& path : prompt_files_) texts.push_back(read_prompt(path));
  if (texts.empty() && chat_.wanted()) texts.emplace_back();  // the conversation is in --messages
  if (texts.size() > 1 && !chat_.messages.empty())
    throw UsageError("A conversation of --messages can be followed by one prompt only.");
  for (std::string& text : texts) {
    if (chat_.wanted()) text = chat_prompt(chat_, text, source);
    prompts.push_back({text, encode_prompt(text, tokenizer, source, model, !chat_.wanted())});
  }
  return prompts;
}

std::string GenerateOptions::take_defaults(const GenerationDefaults& defaults) {
  end_tokens_ = defaults.eos;
  if (generation_config_ == "none") return "";
  std::string taken;
  auto take = [&](const auto& from, const Flag* flag, auto& to, std::string_view name) {
    if (!from || flag->given() || static_cast<double>(*from) == static_cast<double>(to)) return;
    to = *from;
    taken += fmt::format("{}{} {}", taken.empty() ? "" : ", ", name, to);
  };
  const SamplingDefaults& own = defaults.sampling;
  take(own.temperature, temperature_flag_, sampling_.temperature, "temperature");
  take(own.top_k, top_k_flag_, sampling_.top_k, "top-k");
  take(own.top_p, top_p_flag_, sampling_.top_p, "top-p");
  take(own.min_p, min_p_flag_, sampling_.min_p, "min-p");
  take(own.repetition_penalty, repetition_flag_, sampling_.repetition_penalty, "repetition penalty");
  try {
    check_sampling_params(sampling_);
  } catch (const UsageError& e) {  // the flags have been checked
    throw Error("generation_config.json: {} Give --generation-config none to ignore it.", e.what());
  }
  return taken.empty() ? "" : "sampling as generation_config.json says: " + taken;
}

Request GenerateOptions::request(const GivenPrompt& prompt, int64_t sample) const {
  Request request;
  request.prompt = prompt.ids;
  request.max_tokens = max_tokens_;
  request.min_tokens = min_tokens_;
  request.sampling = sampling_;
  request.sampling.seed += static_cast<uint64_t>(sample);
  if (!ignore_eos_) request.stop_tokens = end_tokens_;
  request.stop_tokens.insert(request.stop_tokens.end(), stop_token_ids_.begin(), stop_token_ids_.end());
  request.stop = stop_;
  if (logprobs_flag_->given()) request.logprobs = static_cast<int>(logprobs_);
  if (prompt_logprobs_flag_->given() && sample == 0) request.prompt_logprobs = static_cast<int>(prompt_logprobs_);
  return request;
}

}  // namespace fk
