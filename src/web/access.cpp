#include "web/access.h"

namespace fk {
namespace {

// Takes as long for a wrong token as for a right one.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size() || a.empty()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return different == 0;
}

// "name:port" or "[::1]:port" without the port.
std::string_view host_name(std::string_view header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.rfind(':'));
}

}  // namespace

bool is_local_host(std::string_view host) { return host == "localhost" || host == "127.0.0.1" || host == "::1"; }

ReadAccess may_read(const AccessRules& rules, const Asked& asked) {
  if (rules.access_token.empty())
    return is_local_host(host_name(asked.host)) ? ReadAccess::kAllowed : ReadAccess::kRefused;
  if (same_secret(asked.url_token, rules.access_token)) return ReadAccess::kSetCookie;
  std::optional<std::string> cookie = cookie_value(asked.cookie, kCookie);
  return cookie && same_secret(*cookie, rules.access_token) ? ReadAccess::kAllowed : ReadAccess::kRefused;
}

bool may_act(const AccessRules& rules, const Asked& asked) {
  if (may_read(rules, asked) != ReadAccess::kAllowed) return false;
  if (!asked.origin.empty() && asked.origin != "http://" + asked.host) return false;
  return same_secret(asked.action_token, rules.action_token);
}

std::optional<std::string> cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    size_t end = std::min(header.find(';'), header.size());
    std::string_view pair = header.substr(0, end);
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      return std::string(pair.substr(name.size() + 1));
    header.remove_prefix(std::min(end + 1, header.size()));
  }
  return std::nullopt;
}

}  // namespace fk
