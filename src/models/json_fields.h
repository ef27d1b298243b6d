// Typed access to the members of a JSON object, with an error message for each kind of mistake.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/json_fwd.h"

namespace fk {

// `null` counts as absent: transformers writes it for "use the default". `object` must outlive this.
class JsonFields {
 public:
  // `what` starts every error: "config.json of /models/x", "rope_scaling in config.json of /models/x".
  JsonFields(const Json& object, std::string what);

  const std::string& what() const { return what_; }
  const Json* find(std::string_view key) const;  // nullptr where absent
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool has_key(std::string_view key) const;  // null or not
  bool is_null(std::string_view key) const;  // present, as null
  bool empty() const;
  // Throws where it has a key that is none of these.
  void refuse_other_keys(std::initializer_list<std::string_view> known) const;
  // From now on every key that is asked for enters `asked`, which must outlive this and its copies.
  void record_keys(std::set<std::string, std::less<>>& asked) { asked_ = &asked; }

  std::optional<int64_t> integer(std::string_view key, int64_t least, int64_t most) const;
  std::optional<double> real(std::string_view key, double least, double most) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  std::optional<JsonFields> object(std::string_view key) const;

 private:
  [[noreturn]] void refuse(std::string_view key, const std::string& wanted, const Json& found) const;

  void record(std::string_view key) const;

  const Json* object_;
  std::string what_;
  std::set<std::string, std::less<>>* asked_ = nullptr;
};

}  // namespace fk
