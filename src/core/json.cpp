#include "core/json.h"

#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/input_file.h"

namespace fk {
namespace {

constexpr size_t kMaxDepth =
    128;  // far more than any config or header needs; too little to overflow the stack in a recursion

// The library quotes the last token, which may be megabytes; the beginning of its message has position and cause.
std::string first_words(std::string detail) {
  constexpr size_t kLongest = 200;
  if (detail.size() <= kLongest) return detail;
  size_t end = kLongest;
  while ((detail[end] & 0xc0) == 0x80) --end;  // not in the middle of a UTF-8 character
  return detail.substr(0, end) + "...";
}

// Builds the value, and rejects everything that strict JSON does not define. Members are appended instead of looked up,
// since a lookup in an ordered object is a linear search and headers of checkpoints have tens of thousands of members.
class StrictHandler {
 public:
  explicit StrictHandler(Json& root) : root_(root) {}

  std::string refused;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON text

  bool start_object(size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (!open_.back().keys.insert(name).second) {
      refused = fmt::format("the key '{}' appears twice in one object", name.substr(0, 80));
      return false;
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) {
    refused = e.what();
    if (auto end = refused.find("] "); end != std::string::npos) refused = refused.substr(end + 2);
    refused = first_words(refused);
    return false;
  }

 private:
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;  // of an object
  };

  // A container moves only when a sibling is added after it, and then it is already closed: pointers in open_ stay
  // valid.
  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back().value;
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    auto& members = parent.get_ref<Json::object_t&>();
    return &static_cast<Json::object_t::Container&>(members).emplace_back(std::move(key_), std::move(value)).second;
  }
  bool add(Json value) { return place(std::move(value)) != nullptr; }
  bool open(Json value) {
    if (open_.size() == kMaxDepth) {
      refused = fmt::format("it is nested deeper than {} levels", kMaxDepth);
      return false;
    }
    open_.push_back({place(std::move(value)), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  std::string key_;
  std::vector<Open> open_;
};

void require_finite(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    throw Error("a result holds a number that is not finite, which JSON cannot express.");
  if (value.is_structured())
    for (const auto& item : value) require_finite(item);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  // The lexer treats a zero byte as the end of the text and would ignore the rest.
  if (size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw Error("{} is not valid JSON: byte {} is zero.", what, zero);
  Json root;
  StrictHandler handler(root);
  if (!Json::sax_parse(text.begin(), text.end(), &handler))
    throw Error("{} is not valid JSON: {}.", what, handler.refused);
  return root;
}

Json parse_json_file(const std::string& path) { return parse_json(read_file(path, path), path); }

std::string dump_json(const Json& value, int indent) {
  require_finite(value);
  // A path may be any bytes. Those that are not UTF-8 become U+FFFD, so that a strange name does not lose the results
  // of a long run.
  std::string text = value.dump(indent, ' ', false, Json::error_handler_t::replace);
  // U+0080 to U+009F control terminals, and stand only in strings here.
  for (size_t at = 0; (at = text.find('\xc2', at)) != std::string::npos; ++at)
    if (auto next = static_cast<unsigned char>(text[at + 1]); next < 0xa0)
      text.replace(at, 2, fmt::format("\\u{:04x}", next));
  return text;
}

}  // namespace fk
