// Who may ask the server for what. Plain functions over header values, so that every rule has its test.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fk {

// This machine alone: "localhost", "127.0.0.1", "::1".
bool is_local_host(std::string_view host);

// Header values of a request; absent ones are empty.
struct Asked {
  std::string host, origin, cookie, action_token;
  std::string url_token;  // ?token=
};

struct AccessRules {
  std::string bound_host;  // as given with --host
  int port = 0;
  std::string access_token;  // empty: the server is for this machine alone
  std::string action_token;  // what our own page sends with an action
};

enum class ReadAccess { kAllowed, kRefused, kSetCookie };

// A page of another site may reach a server on this machine by a name of its own (DNS rebinding), so the name asked for
// must be ours. A server for others asks for its token instead: once in the address, then as a cookie.
ReadAccess may_read(const AccessRules& rules, const Asked& asked);

// An action also needs the token that our page was given, and must not come from another site's page.
bool may_act(const AccessRules& rules, const Asked& asked);

// The value of one cookie of a Cookie header.
std::optional<std::string> cookie_value(std::string_view header, std::string_view name);

inline constexpr std::string_view kCookie = "fastkernels_token";

}  // namespace fk
