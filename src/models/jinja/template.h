// Template: a Jinja template as chat templates are written, with transformers' options (trim_blocks, lstrip_blocks,
// loop controls, the tag `generation`) and its functions. What it has not is refused by name when it is read or used.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "models/jinja/runtime.h"

namespace fk::jinja {

class Template {
 public:
  // `name` is used in errors. Throws Error with the line where the text is no template.
  Template(std::string_view source, std::string name);

  // Throws Error with the line where a value does not fit, or with the template's own words where it refuses.
  std::string render(const Dict& names, std::time_t now) const;

 private:
  std::string name_;
  std::vector<Statement> statements_;
};

}  // namespace fk::jinja
