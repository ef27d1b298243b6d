#include "cli/prompt.h"

#include "core/error.h"

namespace fk {

std::vector<int64_t> encode_prompt(const std::string& text, const std::optional<Tokenizer>& tokenizer,
                                   const ModelSource& source, const ModelOptions& options, bool add_special_tokens) {
  if (tokenizer) {
    std::vector<int32_t> ids = tokenizer->encode(text, add_special_tokens);
    return {ids.begin(), ids.end()};
  }
  if (options.load_format != "dummy")
    throw Error("There is no tokenizer.json in {}; add one, or give token ids instead of text.",
                source.directory.empty() ? source.name : source.directory);
  // With dummy weights any ids will do, so the bytes of the text are used.
  std::vector<int64_t> ids;
  for (unsigned char byte : text) ids.push_back(byte % source.config.facts.vocab_size);
  return ids;
}

std::vector<int64_t> parse_token_ids(const std::string& text) {
  std::vector<int64_t> ids;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::optional<int64_t> id = parse_whole<int64_t>(std::string_view(text).substr(begin, end - begin));
    if (!id) throw UsageError("--prompt-token-ids takes whole numbers with commas between, as 5,17,99, not '{}'", text);
    ids.push_back(*id);
    begin = end + 1;
  }
  return ids;
}

}  // namespace fk
