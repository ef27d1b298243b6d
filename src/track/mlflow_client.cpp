#include "track/mlflow_client.h"

#include <cctype>

#include "core/environment_variable.h"
#include "core/error.h"
#include "core/loose_json.h"

namespace fk {
namespace {

constexpr size_t kMostKey = 250;  // of the server

}  // namespace

std::string cut_text(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return text.substr(0, end);
}

std::string url_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (char c : text) {
    bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-_.~").find(c) != std::string_view::npos;
    if (plain || (keep_slashes && c == '/'))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Json MlflowClient::call(const std::string& method, const std::string& path, const Json& body, bool* absent) const {
  HttpRequest request = make(method, "/api/2.0/mlflow/" + path);
  request.headers.emplace_back("Content-Type: application/json");
  if (!body.is_null()) request.body = dump_json(body, -1);
  HttpReply reply = send(request);
  Json json = parse_loosely(reply.body);
  if (reply.status / 100 == 2 && json.is_object()) return json;
  bool missing = json.is_object() && json.value("error_code", "") == "RESOURCE_DOES_NOT_EXIST";
  if (absent != nullptr && missing) {
    *absent = true;
    return {};
  }
  throw Error("MLflow at {} refused {} ({}: {}).", server_.uri, path, reply.status,
              json.is_object() ? json.value("message", "no message") : cut_text(reply.body, 200));
}

void MlflowClient::put_artifact(const std::string& path, const std::string& bytes) const {
  HttpRequest request = make("PUT", "/api/2.0/mlflow-artifacts/artifacts/" + url_encoded(path, true));
  request.headers.emplace_back("Content-Type: application/octet-stream");
  request.body = bytes;
  if (HttpReply reply = send(request); reply.status / 100 != 2)
    throw Error("MLflow at {} refused the artifact {} ({}: {}).", server_.uri, path, reply.status,
                cut_text(reply.body, 200));
}

HttpRequest MlflowClient::make(const std::string& method, const std::string& path) const {
  HttpRequest request;
  request.method = method;
  request.url = server_.uri + path;
  request.cancel = server_.cancel;
  if (!server_.token.empty()) request.headers.push_back("Authorization: Bearer " + server_.token);
  if (!server_.user.empty()) request.user_password = server_.user + ":" + server_.password;
  return request;
}

HttpReply MlflowClient::send(const HttpRequest& request) const {
  Result<HttpReply> reply = http_send(request);
  if (!reply) throw Error("MLflow at {} does not answer ({}).", server_.uri, reply.error());
  return std::move(reply).value();
}

MlflowServer MlflowServer::from_environment() {
  MlflowServer s;
  s.uri = environment_variable("MLFLOW_TRACKING_URI");
  while (s.uri.ends_with('/')) s.uri.pop_back();
  s.target = s.uri;
  s.token = environment_variable("MLFLOW_TRACKING_TOKEN");
  s.user = environment_variable("MLFLOW_TRACKING_USERNAME");
  s.password = environment_variable("MLFLOW_TRACKING_PASSWORD");
  return s;
}

std::string mlflow_key(std::string_view key) {
  std::string out;
  for (char c : key)
    out +=
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-. :/").find(c) != std::string_view::npos
            ? c
            : '_';
  return cut_text(out, kMostKey);
}

std::string mlflow_health(const MlflowServer& server) {
  MlflowClient client(server);
  try {
    HttpRequest request = client.make("GET", "/health");
    request.timeout_ms = 5000;
    int status = client.send(request).status;
    return status == 200 ? "" : fmt::format("MLflow at {} answers a health check with {}.", server.uri, status);
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace fk
