#include "models/tokenizer_template.h"

#include <map>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/in_quotes.h"
#include "models/tokenizer_bpe.h"

namespace fk {

SpecialTemplate::SpecialTemplate(const JsonNode& node) {
  bool found = false;
  for (const JsonNode& part : node.parts("processors")) {
    std::string type = part.type();
    if (type == "ByteLevel") continue;  // moves offsets, never ids
    if (type != "TemplateProcessing") part.unsupported("post-processor", "TemplateProcessing, ByteLevel and Sequence");
    if (std::exchange(found, true)) throw Error("{} is a second TemplateProcessing; keep one.", part.path());
    read_template(part);
  }
}

void SpecialTemplate::read_template(const JsonNode& node) {
  std::map<std::string, std::vector<int32_t>> special;
  if (auto tokens = node.find("special_tokens")) {
    for (const auto& [name, token] : tokens->members()) {
      for (const JsonNode& item : token.at("ids").items()) {
        int64_t id = item.integer();
        if (id < 0 || id >= kMaxTokenIds) item.fail(fmt::format("from 0 to {}", kMaxTokenIds - 1));
        special[name].push_back(static_cast<int32_t>(id));
      }
    }
  }
  parts_.clear();
  for (const JsonNode& item : node.at("single").items()) {
    if (auto sequence = item.find("Sequence")) {
      if (sequence->at("id").string() != "A") sequence->at("id").fail("A, for a single text");
      parts_.push_back({.text = true});
      continue;
    }
    JsonNode name = item.at("SpecialToken").at("id");
    auto it = special.find(name.string());
    if (it == special.end())
      throw Error("{} names {}, which special_tokens lacks.", name.path(), in_quotes(name.string()));
    parts_.push_back({.text = false, .ids = it->second});
  }
}

std::vector<int32_t> SpecialTemplate::apply(const std::vector<int32_t>& ids, bool add_special_tokens) const {
  std::vector<int32_t> out;
  for (const Part& part : parts_) {
    if (!part.text && !add_special_tokens) continue;
    const auto& from = part.text ? ids : part.ids;
    out.insert(out.end(), from.begin(), from.end());
  }
  return out;
}

std::vector<int32_t> SpecialTemplate::special_ids() const {
  std::vector<int32_t> out;
  for (const Part& part : parts_) out.insert(out.end(), part.ids.begin(), part.ids.end());
  return out;
}

}  // namespace fk
