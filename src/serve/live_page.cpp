#include "serve/live_page.h"

namespace fk {

extern const std::string_view kLivePage;
extern const std::string_view kOpenApi;

HttpResponse live_page() {
  // Everything is in the page itself, and it reads /stats of this server alone.
  return {.type = "text/html; charset=utf-8",
          .body = std::string(kLivePage),
          .headers = {{"Cache-Control", "no-store"},
                      {"Content-Security-Policy",
                       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
                       "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                      {"X-Content-Type-Options", "nosniff"}}};
}

std::string openapi_text(std::string_view version) {
  std::string text(kOpenApi);
  constexpr std::string_view kPlace = "VERSION_OF_THE_PROGRAM";
  if (size_t at = text.find(kPlace); at != std::string::npos) text.replace(at, kPlace.size(), version);
  return text;
}

}  // namespace fk
