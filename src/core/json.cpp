#include "core/json.h"

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "core/error.h"

namespace fk {
namespace {

constexpr int kMaxDepth = 128;  // far beyond any config or header; below what recursion over the value could not bear

// Builds the value through nlohmann's own handler and refuses what strict JSON leaves undefined.
class StrictHandler : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

 public:
  explicit StrictHandler(Json& value) : Base(value, true) {}

  std::string refused;

  bool start_object(std::size_t n) {
    keys_.emplace_back();
    return deeper() && Base::start_object(n);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return Base::end_object();
  }
  bool start_array(std::size_t n) { return deeper() && Base::start_array(n); }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(string_t& k) {
    if (!keys_.back().insert(k).second) {
      refused = fmt::format("the key '{}' appears twice in one object", k.substr(0, 80));
      return false;
    }
    return Base::key(k);
  }

 private:
  bool deeper() {
    if (++depth_ <= kMaxDepth) return true;
    refused = fmt::format("it is nested deeper than {} levels", kMaxDepth);
    return false;
  }

  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

// The library quotes what it last read, which may be megabytes; its first words hold the position and the cause.
std::string first_words(std::string detail) {
  constexpr size_t kLongest = 200;
  if (detail.size() <= kLongest) return detail;
  size_t end = kLongest;
  while ((detail[end] & 0xc0) == 0x80) --end;  // not in the middle of a UTF-8 character
  return detail.substr(0, end) + "...";
}

void require_finite(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    throw Error("a result holds a number that is not finite, which JSON cannot express.");
  if (value.is_structured())
    for (const auto& item : value) require_finite(item);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  // The library takes a zero byte for the end of the text and would not look at what follows.
  if (size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw Error("{} is not valid JSON: byte {} is zero.", what, zero);
  Json root;
  StrictHandler handler(root);
  try {
    if (Json::sax_parse(text.begin(), text.end(), &handler)) return root;
  } catch (const nlohmann::json::exception& e) {
    std::string detail = e.what();
    if (auto end = detail.find("] "); end != std::string::npos) detail = detail.substr(end + 2);
    throw Error("{} is not valid JSON: {}.", what, first_words(detail));
  }
  throw Error("{} is not acceptable JSON: {}.", what, handler.refused);
}

Json parse_json_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("Cannot read {}.", path);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_json(text.str(), path);
}

std::string dump_json(const Json& value, int indent) {
  require_finite(value);
  try {
    return value.dump(indent);
  } catch (const nlohmann::json::type_error&) {
    throw Error("a result holds text that is not valid UTF-8, which JSON cannot express.");
  }
}

}  // namespace fk
