// HTTP by libcurl.
#include <curl/curl.h>

#include <memory>
#include <mutex>

#include "track/http.h"

namespace fk {
namespace {

// A larger reply is not from an MLflow server.
constexpr size_t kMostReplyBytes = size_t{64} << 20;

size_t take_reply(char* data, size_t size, size_t count, void* into) {
  auto& body = *static_cast<std::string*>(into);
  if (body.size() + size * count > kMostReplyBytes) return 0;
  body.append(data, size * count);
  return size * count;
}

int look_at_cancel(void* flag, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* cancel = static_cast<const std::atomic<bool>*>(flag);
  return cancel != nullptr && cancel->load() ? 1 : 0;
}

}  // namespace

std::string http_unavailable() { return ""; }

Result<HttpReply> http_send(const HttpRequest& request) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  // One handle for all requests of a thread: it keeps the connection to the server; all options are reset.
  thread_local std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), &curl_easy_cleanup);
  if (!curl) return failure("libcurl could not start");
  curl_easy_reset(curl.get());
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, &curl_slist_free_all);
  auto add_header = [&](const std::string& h) { headers.reset(curl_slist_append(headers.release(), h.c_str())); };
  for (const std::string& h : request.headers) add_header(h);
  add_header("Expect:");  // otherwise curl waits up to a second for "100 Continue"

  HttpReply reply;
  char why[CURL_ERROR_SIZE] = {};
  auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, 3000L);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
  set(CURLOPT_ERRORBUFFER, &why[0]);
  set(CURLOPT_WRITEFUNCTION, &take_reply);
  set(CURLOPT_WRITEDATA, &reply.body);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &look_at_cancel);
  set(CURLOPT_XFERINFODATA, request.cancel);
  if (request.method != "GET") {
    set(CURLOPT_POSTFIELDS, request.body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  if (!request.user_password.empty()) set(CURLOPT_USERPWD, request.user_password.c_str());
  if (CURLcode status = curl_easy_perform(curl.get()); status != CURLE_OK)
    return failure("{}", why[0] != '\0' ? why : curl_easy_strerror(status));
  long code = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &code);
  reply.status = static_cast<int>(code);
  return reply;
}

}  // namespace fk
