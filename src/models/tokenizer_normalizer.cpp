#include "models/tokenizer_normalizer.h"

#include "core/error.h"
#include "models/unicode.h"

namespace fk {
namespace {

std::string apply_step(const NfcStep&, const std::string& text) { return unicode::nfc(text); }
std::string apply_step(const PrependStep& step, const std::string& text) {
  return text.empty() ? text : step.content + text;
}
std::string apply_step(const ReplaceStep& step, const std::string& text) { return step.apply(text); }

}  // namespace

void require_text_fits(size_t bytes) {
  if (bytes > kMaxTextBytes) throw Error("The text is longer than {} MiB; tokenize it in parts.", kMaxTextBytes >> 20);
}

std::string ReplaceStep::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  size_t from = 0;
  for (size_t at; (at = text.find(pattern, from)) != std::string_view::npos; from = at + pattern.size()) {
    out += text.substr(from, at - from);
    out += content;
    require_text_fits(out.size());
  }
  return out += text.substr(from);
}

ReplaceStep read_replace(const JsonNode& node) {
  JsonNode pattern = node.at("pattern");
  if (pattern.find("Regex"))
    throw Error("{} is a Regex, which is supported only for Split; use a String.", pattern.path());
  ReplaceStep step{pattern.at("String").string(), node.at("content").string()};
  if (step.pattern.empty()) pattern.at("String").fail("a string that is not empty");
  return step;
}

Normalizer::Normalizer(const JsonNode& node) {
  for (const JsonNode& part : node.parts("normalizers")) {
    std::string type = part.type();
    if (type == "NFC")
      steps_.emplace_back(NfcStep{});
    else if (type == "Prepend")
      steps_.emplace_back(PrependStep{part.at("prepend").string()});
    else if (type == "Replace")
      steps_.emplace_back(read_replace(part));
    else
      part.unsupported("normalizer", "NFC, Prepend, Replace and Sequence");
  }
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const auto& step : steps_) out = std::visit([&](const auto& s) { return apply_step(s, out); }, step);
  return out;
}

}  // namespace fk
