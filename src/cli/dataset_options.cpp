#include "cli/dataset_options.h"

#include <memory>
#include <utility>

#include "cli/record_options.h"
#include "core/error.h"
#include "models/resolve.h"

namespace fk {

std::optional<Tokenizer> load_tokenizer(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name.ends_with(".json")) return Tokenizer::from_file(name);
  ModelSource source = resolve_model(name);
  if (source.tokenizer.empty()) throw Error("{} has no tokenizer.json; name one with --tokenizer.", name);
  return Tokenizer::from_file(source.tokenizer);
}

std::function<void(const std::string&)> warn_once() {
  return [warned = std::make_shared<bool>(false)](const std::string& sentence) {
    if (!std::exchange(*warned, true)) warn_on_stderr(sentence);
  };
}

void DatasetFlags::add(FlagSet& flags) {
  constexpr int64_t kMost = int64_t{1} << 24;
  auto count = [&](const char* name, int64_t& value, int64_t least, const char* help) -> Flag& {
    return flags.option(name, value, help).range(least, kMost).show_default();
  };
  flags.option("--dataset-name", options_.name, "Where prompts come from").one_of(dataset_names()).show_default();
  flags.option("--dataset-path", options_.path, "File of sharegpt (JSON) or custom (a {\"prompt\": ...} a line)")
      .type_name("FILE");
  count("--num-prompts", options_.num_prompts, 1, "Requests");
  count("--random-input-len", options_.random_input_len, 0, "random: tokens of a prompt");
  count("--random-output-len", options_.random_output_len, 1, "random: tokens to generate");
  flags
      .option("--random-range-ratio", options_.random_range_ratio,
              "random: lengths vary by this share up and down, from 0 to below 1")
      .show_default();
  count("--random-prefix-len", options_.random_prefix_len, 0, "random: tokens before them that all prompts share");
  count("--prefix-repetition-prefix-len", options_.prefix_len, 0, "prefix-repetition: tokens of a prefix");
  count("--prefix-repetition-suffix-len", options_.suffix_len, 0, "prefix-repetition: tokens after it");
  count("--prefix-repetition-num-prefixes", options_.num_prefixes, 1, "prefix-repetition: different prefixes");
  count("--prefix-repetition-output-len", options_.prefix_output_len, 1, "prefix-repetition: tokens to generate");
  count("--sharegpt-output-len", options_.sharegpt_output_len, 0,
        "sharegpt: tokens to generate; 0: as many as the answer in the file has");
  count("--custom-output-len", options_.custom_output_len, 1,
        "custom: tokens to generate where a line has no \"output_tokens\"");
  flags.option("--input-len", input_len_, "The same as --random-input-len").range(1, kMost);
  flags.option("--output-len", output_len_, "Tokens to generate, whatever the dataset").range(1, kMost);
}

DatasetOptions DatasetFlags::options(uint64_t seed) const {
  DatasetOptions o = options_;
  o.seed = seed;
  const bool of_a_file = o.name == "sharegpt" || o.name == "custom";
  if (!o.path.empty() && !of_a_file)
    throw UsageError(
        "--dataset-path is a file of --dataset-name sharegpt or custom; give one of them, since {} reads none.",
        o.name);
  if (input_len_ > 0 && o.name != "random")
    throw UsageError("--input-len sets the length of random prompts; leave it out with --dataset-name {}.", o.name);
  if (input_len_ > 0) o.random_input_len = input_len_;
  if (output_len_ > 0)
    o.random_output_len = o.prefix_output_len = o.sharegpt_output_len = o.custom_output_len = output_len_;
  return o;
}

}  // namespace fk
