// The post-processor of a tokenizer file: which special ids are added around the ids of the text.
#pragma once

#include <cstdint>
#include <vector>

#include "models/tokenizer_json.h"

namespace fk {

class SpecialTemplate {
 public:
  SpecialTemplate() = default;  // adds nothing
  explicit SpecialTemplate(const JsonNode& node);

  std::vector<int32_t> apply(const std::vector<int32_t>& ids, bool add_special_tokens) const;

  // Every special id the template can add, for the caller to check against its vocabulary.
  std::vector<int32_t> special_ids() const;

 private:
  struct Part {
    bool text;                   // the ids of the text go here
    std::vector<int32_t> ids{};  // otherwise these ids
  };
  void read_template(const JsonNode& node);

  std::vector<Part> parts_{{.text = true}};
};

}  // namespace fk
