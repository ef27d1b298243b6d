#include "serve/live_page.h"

#include <utility>

#include "core/json.h"

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

std::string openapi_text(std::string_view version, const ServedModel& model) {
  std::string text(kOpenApi);
  const std::pair<std::string_view, std::string> filled[] = {
      {"\"VERSION_OF_THE_PROGRAM\"", dump_json(Json(version))},
      {"\"SERVED_MODEL\"", dump_json(Json(model.names.front()))},
      {"\"LAST_TOKEN_ID\"", std::to_string(model.vocab_size - 1)}};
  for (const auto& [place, value] : filled)
    for (size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += value.size())
      text.replace(at, place.size(), value);
  return text;
}

}  // namespace fk
