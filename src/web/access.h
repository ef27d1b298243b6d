// Access rules of the server. Plain functions of header values, so that every rule can be tested.
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
  std::string access_token;  // empty: only this machine may connect
  std::string action_token;  // sent by our own page with an action
};

enum class ReadAccess { kAllowed, kRefused, kSetCookie };

// A page of another site may reach a server on this machine under another name (DNS rebinding), so the Host header must
// be ours. A server for other machines checks its token instead: once in the address, then as a cookie.
ReadAccess may_read(const AccessRules& rules, const Asked& asked);

// An action also needs the token of our page, and must not come from a page of another site.
bool may_act(const AccessRules& rules, const Asked& asked);

// The value of one cookie of a Cookie header.
std::optional<std::string> cookie_value(std::string_view header, std::string_view name);

inline constexpr std::string_view kCookie = "fastkernels_token";

}  // namespace fk
