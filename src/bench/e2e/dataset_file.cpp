#include "bench/e2e/dataset_file.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/input_file.h"
#include "core/json.h"

namespace fk {
namespace {

// ShareGPT's own file has 670 MB.
constexpr size_t kLargestDataset = size_t{4} << 30;

std::string text_field(const Json& object, const char* key, const std::string& where) {
  auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_string())
    throw Error("{} has no \"{}\" that is a text.", where, key);
  return found->get<std::string>();
}

// The text is one line: where it stands in the file is in `where`.
Json parse_line(std::string_view line, const std::string& where) {
  constexpr std::string_view kItsOnlyLine = "at line 1, column ";
  try {
    return parse_json(line, where);
  } catch (const Error& e) {
    std::string text = e.what();
    if (size_t at = text.find(kItsOnlyLine, where.size()); at != text.npos)
      text.replace(at, kItsOnlyLine.size(), "at column ");
    throw Error(text);
  }
}

}  // namespace

std::vector<FilePrompt> read_sharegpt(const std::string& path) {
  Json all = parse_json(read_file(path, path, "", kLargestDataset), path);
  if (!all.is_array()) throw Error("{} is not a ShareGPT file: a list of conversations.", path);
  std::vector<FilePrompt> prompts;
  for (size_t i = 0; i < all.size(); ++i) {
    std::string where = fmt::format("Entry {} of {}", i + 1, path);
    const Json& entry = all[i];
    auto turns = entry.is_object() ? entry.find("conversations") : entry.end();
    if (!entry.is_object() || turns == entry.end() || !turns->is_array())
      throw Error("{} has no \"conversations\" that is a list.", where);
    if (turns->size() < 2) continue;
    FilePrompt prompt;
    prompt.prompt = text_field((*turns)[0], "value", where);
    prompt.answer = text_field((*turns)[1], "value", where);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::vector<FilePrompt> read_custom_jsonl(const std::string& path) {
  std::string text = read_file(path, path, "", kLargestDataset);
  std::vector<FilePrompt> prompts;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    std::string where = fmt::format("Line {} of {}", number, path);
    Json object = parse_line(line, where);
    FilePrompt prompt;
    prompt.prompt = text_field(object, "prompt", where);
    if (prompt.prompt.empty()) throw Error("{} has an empty prompt.", where);
    if (auto count = object.find("output_tokens"); count != object.end()) {
      if (!count->is_number_integer() || *count < 1)
        throw Error("{} has an \"output_tokens\" that is not a whole number above 0.", where);
      prompt.output_tokens = count->get<int64_t>();
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace fk
