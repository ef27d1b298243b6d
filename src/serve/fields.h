// Fields: reads the members of a request's JSON object, and says in one sentence which one is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"

namespace fk {

// The body as an object. Throws ApiError where it is none.
Json parse_body(std::string_view body);

// A member that is missing or null has its default. All of them throw ApiError with the name of the member.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(&object) {}

  const Json* find(std::string_view name) const;  // nullptr: missing or null

  bool boolean(std::string_view name, bool otherwise) const;
  double number(std::string_view name, double otherwise, double least, double most) const;
  int64_t whole(std::string_view name, int64_t otherwise, int64_t least, int64_t most) const;
  std::optional<int64_t> whole(std::string_view name, int64_t least, int64_t most) const;
  std::optional<std::string> text(std::string_view name) const;

  // One text or a list of them.
  std::vector<std::string> texts(std::string_view name, size_t most) const;
  std::vector<int64_t> token_ids(std::string_view name) const;

  // For a member that other servers know and this one does not: throws unless it is missing, null, false, 0 or
  // empty.
  void refuse(std::string_view name, std::string_view why) const;
  // For one whose 0 or empty value asks for something too: throws unless it is missing or null.
  void refuse_any(std::string_view name, std::string_view why) const;

 private:
  const Json* object_;
};

// A whole number, also as 16.0; nothing for anything else.
std::optional<int64_t> whole_number(const Json& value);

// What a prompt or an input can be: one or several, each a text or token ids.
struct Inputs {
  std::vector<std::string> texts;
  std::vector<std::vector<int64_t>> ids;
};
Inputs read_inputs(const Json& object, std::string_view name, size_t most);

}  // namespace fk
