// HTTP by libcurl, which is loaded for the first request: it loads 30 other libraries, and starting without them takes
// 5 ms less.
#include <curl/curl.h>
#include <dlfcn.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <type_traits>

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

// The functions of libcurl.
struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  std::string missing;  // empty, or why it cannot be used

  Curl() {
    // Its name in most systems, and where Debian compiled it with GnuTLS. Never unloaded: its threads may still run.
    void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      const std::string why = error == nullptr ? "" : error;
      library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        missing = fmt::format("libcurl could not be loaded ({}); install libcurl4", why);
        return;
      }
    }
    auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr && missing.empty())
        missing = fmt::format("libcurl has no function {}; install a newer libcurl4", name);
    };
    find(global_init, "curl_global_init");
    find(easy_init, "curl_easy_init");
    find(easy_cleanup, "curl_easy_cleanup");
    find(easy_reset, "curl_easy_reset");
    find(easy_setopt, "curl_easy_setopt");
    find(easy_perform, "curl_easy_perform");
    find(easy_strerror, "curl_easy_strerror");
    find(easy_getinfo, "curl_easy_getinfo");
    find(slist_append, "curl_slist_append");
    find(slist_free_all, "curl_slist_free_all");
    if (missing.empty() && global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) missing = "libcurl could not start";
  }
};

const Curl& curl_library() {
  static const Curl library;
  return library;
}

int look_at_cancel(void* flag, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* cancel = static_cast<const std::atomic<bool>*>(flag);
  return cancel != nullptr && cancel->load() ? 1 : 0;
}

}  // namespace

std::string http_unavailable() { return curl_library().missing; }

Result<HttpReply> http_send(const HttpRequest& request) {
  const Curl& library = curl_library();
  if (!library.missing.empty()) return Failed{library.missing};
  // One handle for all requests of a thread: it keeps the connection to the server; all options are reset.
  thread_local std::unique_ptr<CURL, void (*)(CURL*)> curl(library.easy_init(), library.easy_cleanup);
  if (!curl) return failure("libcurl could not start");
  library.easy_reset(curl.get());
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, library.slist_free_all);
  auto add_header = [&](const std::string& h) { headers.reset(library.slist_append(headers.release(), h.c_str())); };
  for (const std::string& h : request.headers) add_header(h);
  add_header("Expect:");  // otherwise curl waits up to a second for "100 Continue"

  HttpReply reply;
  char why[CURL_ERROR_SIZE] = {};
  auto set = [&](CURLoption option, auto value) { library.easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, request.url.c_str());
  if (library.easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK)
    return failure("libcurl is older than 7.85; install a newer one");
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
  if (CURLcode status = library.easy_perform(curl.get()); status != CURLE_OK)
    return failure("{}", why[0] != '\0' ? why : library.easy_strerror(status));
  long code = 0;
  library.easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &code);
  reply.status = static_cast<int>(code);
  return reply;
}

}  // namespace fk
