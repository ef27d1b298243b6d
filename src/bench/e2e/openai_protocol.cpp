#include "bench/e2e/openai_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/error.h"
#include "core/json.h"
#include "core/loose_json.h"
#include "core/printable.h"

namespace fk {
namespace {

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_in(const Json& object, const char* key) {
  const Json* found = find(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int64_t> count_in(const Json& object, const char* key) {
  const Json* found = find(object, key);
  if (found == nullptr || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

// {"error": {"message": "..."}}, {"error": "..."}, or {"message": "..."}.
std::string message_in(const Json& body) {
  const Json* error = find(body, "error");
  if (error == nullptr) return text_in(body, "message");
  if (error->is_string()) return error->get<std::string>();
  std::string message = text_in(*error, "message");
  return message.empty() ? error->dump() : message;
}

std::string one_line(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string line(text.substr(0, kMost));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return printable(line);
}

}  // namespace

std::string completion_body(const BenchRequest& request, const CompletionStyle& style) {
  Json body = {{"model", style.model}};
  if (style.chat()) {
    if (request.prompt.empty())
      throw UsageError("{} takes text, and these prompts are token ids; give --tokenizer to make text of them.",
                       style.endpoint);
    body["messages"] = Json::array({{{"role", "user"}, {"content", request.prompt}}});
  } else if (request.prompt.empty()) {
    body["prompt"] = request.prompt_tokens;
  } else {
    body["prompt"] = request.prompt;
  }
  body["max_tokens"] = request.output_len;
  body["temperature"] = style.temperature;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (style.ignore_eos) body["ignore_eos"] = true;
  return dump_json(body, -1);
}

StreamEvent read_stream_event(std::string_view data) {
  StreamEvent event;
  if (data == "[DONE]") {
    event.done = true;
    return event;
  }
  Json json = parse_loosely(data);
  if (json.is_discarded() || !json.is_object()) {
    event.error = fmt::format("the server sent an event that is not a JSON object: {}", one_line(data));
    return event;
  }
  if (find(json, "error") != nullptr) event.error = one_line(message_in(json));
  if (const Json* choices = find(json, "choices"); choices != nullptr && choices->is_array() && !choices->empty()) {
    const Json& choice = choices->front();
    event.text = text_in(choice, "text");
    if (const Json* delta = find(choice, "delta"))
      event.text += text_in(*delta, "reasoning_content") + text_in(*delta, "content");
  }
  if (const Json* usage = find(json, "usage")) {
    event.prompt_tokens = count_in(*usage, "prompt_tokens");
    event.completion_tokens = count_in(*usage, "completion_tokens");
    if (const Json* details = find(*usage, "prompt_tokens_details"))
      event.cached_tokens = count_in(*details, "cached_tokens");
  }
  return event;
}

std::string error_sentence(std::string_view body) {
  Json json = parse_loosely(body);
  std::string message = json.is_discarded() ? "" : message_in(json);
  return one_line(message.empty() ? body : std::string_view(message));
}

std::string first_model(std::string_view body) {
  Json json = parse_loosely(body);
  if (json.is_discarded()) return "";
  const Json* list = find(json, "data");
  return list != nullptr && list->is_array() && !list->empty() ? text_in(list->front(), "id") : "";
}

std::optional<double> prometheus_sum(std::string_view text, std::string_view name) {
  std::optional<double> sum;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    // name{label="..."} 12, or name 12.
    if (line.starts_with('{')) line.remove_prefix(std::min(line.size(), line.rfind('}') + 1));
    if (!line.starts_with(' ')) continue;
    line.remove_prefix(1);
    double value = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), value).ec == std::errc()) sum = sum.value_or(0) + value;
  }
  return sum;
}

ServerAddress parse_base_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://"))
    throw UsageError("{} is encrypted, which this client does not speak; give the http:// address of the server.", url);
  if (!url.starts_with(kScheme)) throw UsageError("'{}' is no address; write http://host:port.", url);
  std::string rest = url.substr(kScheme.size());
  size_t slash = std::min(rest.find('/'), rest.size());
  ServerAddress address;
  address.prefix = rest.substr(slash);
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  std::string place = rest.substr(0, slash);
  size_t bracket = place.find(']');  // [::1]:8000
  size_t colon = place.find(':', bracket == place.npos ? 0 : bracket);
  address.host = place.substr(0, colon);
  if (address.host.starts_with('[')) address.host = address.host.substr(1, address.host.size() - 2);
  address.port = colon == place.npos ? "80" : place.substr(colon + 1);
  bool digits = std::all_of(address.port.begin(), address.port.end(), [](unsigned char c) { return std::isdigit(c); });
  if (address.host.empty() || address.port.empty() || address.port.size() > 5 || !digits)
    throw UsageError("'{}' is no address; write http://host:port.", url);
  return address;
}

}  // namespace fk
