#include "models/jinja/template.h"

#include "core/error.h"
#include "models/jinja/parser.h"
#include "models/unicode.h"

namespace fk::jinja {
namespace {

// Line ends become "\n", and one at the end of the file does not count.
std::string normalized(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    bool carriage = source[i] == '\r';
    if (carriage && i + 1 < source.size() && source[i + 1] == '\n') ++i;
    out += carriage ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_utf8(std::string_view text) {
  std::string repaired;
  unicode::Utf8Repair repair;
  repair.push(text, repaired);
  repair.finish(repaired);
  return repaired == text;
}

}  // namespace

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  if (!is_utf8(source)) throw Error("{} is not valid UTF-8.", name_);
  int line = 1;
  try {
    statements_ = parse(tokenize(normalized(source), line), line);
  } catch (const Fault& fault) {
    throw Error("{}, line {}: {}.", name_, line, fault.what());
  }
}

std::string Template::render(const Dict& names, std::time_t now) const {
  Run run{.now = now};
  auto scope = std::make_shared<Scope>(run, nullptr);
  define_globals(*scope);
  for (const auto& [key, value] : names.items()) scope->set(*key.string(), value);
  std::string out;
  try {
    run_all(statements_, scope, out);
  } catch (const Fault& fault) {
    throw Error("{}, line {}: {}.", name_, run.line, fault.what());
  }
  return out;
}

}  // namespace fk::jinja
