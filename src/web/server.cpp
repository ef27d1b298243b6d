// serve_dashboard: pages and API over HTTP, for this machine unless configured otherwise.
#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <exception>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/loose_json.h"
#include "web/access.h"
#include "web/api.h"
#include "web/escape.h"
#include "web/page.h"
#include "web/web.h"

namespace fk {
namespace {

class DashboardServer {
 public:
  explicit DashboardServer(const ServeOptions& options) : options_(options) {
    // Opened for writing if possible: this creates the store for the first run, and actions need it.
    try {
      writable_ = open_store(options.database);
      store_ = writable_.get();
    } catch (const Error&) {
      read_only_ = open_store_reader(options.database);
      store_ = read_only_.get();
    }
    if (writable_) rules_.action_token = random_token();
    rules_.bound_host = options.host;
    if (!is_local_host(options.host)) rules_.access_token = options.token.empty() ? random_token() : options.token;
  }

  void run() {
    configure();
    std::string host = options_.host == "localhost" ? "127.0.0.1" : options_.host;
    rules_.port = options_.port;
    if (options_.port == 0 || !server_.bind_to_port(host, options_.port)) rules_.port = server_.bind_to_any_port(host);
    if (rules_.port <= 0)
      throw Error("No port of {} can be listened on; give another --host, or leave it out.", options_.host);
    std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
    options_.ready(fmt::format("http://{}:{}/{}", shown, rules_.port,
                               rules_.access_token.empty() ? "" : "?token=" + url_part(rules_.access_token)));
    server_.listen_after_bind();
  }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  static Asked asked(const Request& request) {
    return {request.get_header_value("Host"), request.get_header_value("Origin"), request.get_header_value("Cookie"),
            request.get_header_value("X-Fastkernels-Token"), request.get_param_value("token")};
  }

  // Not set_content(): httplib would compress it with brotli at its slowest setting, four seconds per megabyte, which
  // is useless for a local connection.
  static void send(Response& response, std::string text, std::string_view type) {
    size_t size = text.size();
    if (size == 0) return response.set_content("", std::string(type));  // a content provider needs at least one byte
    response.set_content_provider(size, std::string(type),
                                  [kept = std::move(text)](size_t offset, size_t length, httplib::DataSink& sink) {
                                    return sink.write(kept.data() + offset, length);
                                  });
  }
  static void answer(Response& response, const Json& json, int status = 200) {
    response.status = status;
    response.set_header("Cache-Control", "no-store");
    send(response, page_json(json), "application/json");
  }
  static void refuse(Response& response, int status, const std::string& sentence) {
    answer(response, {{"error", sentence}}, status);
  }

  void configure() {
    // Not SO_REUSEPORT, which httplib sets by itself: two dashboards would share one port and each get half of the
    // requests.
    server_.set_socket_options([](socket_t socket) {
      int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    // Each open connection occupies a thread, and a browser keeps six per window; the default of eight threads is too
    // few for two windows.
    server_.new_task_queue = [] { return new httplib::ThreadPool(64); };
    server_.set_tcp_nodelay(true);
    server_.set_keep_alive_max_count(1000);
    server_.set_payload_max_length(64 * 1024);
    server_.set_default_headers({{"Content-Security-Policy", std::string(kServerPolicy)},
                                 {"X-Content-Type-Options", "nosniff"},
                                 {"X-Frame-Options", "DENY"},
                                 {"Referrer-Policy", "no-referrer"},
                                 {"Cross-Origin-Resource-Policy", "same-origin"}});
    server_.set_pre_routing_handler([this](const Request& q, Response& r) { return before(q, r); });
    server_.set_exception_handler([](const Request&, Response& r, std::exception_ptr e) {
      try {
        std::rethrow_exception(std::move(e));
      } catch (const std::exception& error) {
        refuse(r, 500, error.what());
      } catch (...) {
        refuse(r, 500, "Something went wrong in the dashboard.");
      }
    });
    server_.Get("/", [this](const Request&, Response& r) {
      r.set_header("Cache-Control", "no-store");
      send(r, served_page(rules_.action_token), "text/html; charset=utf-8");
    });
    server_.Get(R"(/assets/([\w.-]+))", [](const Request& q, Response& r) { asset(q, r); });
    server_.Get(R"(/artifact/([^/]+)/(.+))", [this](const Request& q, Response& r) { artifact(q, r); });
    server_.Get(R"(/api/.+)", [this](const Request& q, Response& r) {
      std::lock_guard lock(mutex_);
      if (auto json = api_answer(*store_, q.path))
        answer(r, *json);
      else
        refuse(r, 404, "The history has nothing of that name.");
    });
    server_.Post(R"(/api/run/([^/]+)/(note|delete))", [this](const Request& q, Response& r) { act(q, r); });
  }

  httplib::Server::HandlerResponse before(const Request& request, Response& response) {
    constexpr auto kDone = httplib::Server::HandlerResponse::Handled;
    switch (may_read(rules_, asked(request))) {
      case ReadAccess::kAllowed:
        return httplib::Server::HandlerResponse::Unhandled;
      case ReadAccess::kRefused:
        refuse(response, 403,
               rules_.access_token.empty()
                   ? "Open the dashboard by the address it printed; it answers to localhost only."
                   : "Open the dashboard by the address it printed, with its token.");
        return kDone;
      case ReadAccess::kSetCookie:
        response.set_header("Set-Cookie",
                            fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", kCookie, rules_.access_token));
        response.set_redirect("/");  // the token leaves the address bar
        return kDone;
    }
    return kDone;
  }

  static void asset(const Request& request, Response& response) {
    std::optional<Asset> found = find_asset(request.matches[1].str());
    if (!found) return refuse(response, 404, "There is no such part of the page.");
    response.set_header("Cache-Control", "no-cache");
    send(response, std::string(found->text), found->type);
  }

  void artifact(const Request& request, Response& response) {
    std::lock_guard lock(mutex_);
    std::string run = request.matches[1].str();
    if (!store_->run(run)) return refuse(response, 404, "There is no such run.");
    for (const ArtifactRecord& a : store_->artifacts(run)) {
      if (a.path != request.matches[2].str()) continue;
      std::string name = a.path.substr(a.path.rfind('/') + 1);
      // A type that browsers download, so that a file of a candidate can never run as one of our pages.
      response.set_header("Content-Disposition", "attachment; filename*=UTF-8''" + url_part(name));
      send(response, store_->artifact(a.sha256), "application/octet-stream");
      return;
    }
    refuse(response, 404, "This run has no such file.");
  }

  void act(const Request& request, Response& response) {
    if (!writable_) return refuse(response, 403, "The history can only be read here.");
    if (!may_act(rules_, asked(request)))
      return refuse(response, 403, "Actions need the token of the dashboard's own page; load it again.");
    std::lock_guard lock(mutex_);
    std::string run = request.matches[1].str();
    if (!writable_->run(run)) return refuse(response, 404, "There is no such run.");
    if (request.matches[2].str() == "delete") {
      writable_->remove_run(run);
    } else {
      Json body = parse_loosely(request.body);
      if (!body.is_object() || !body.contains("text") || !body["text"].is_string())
        return refuse(response, 400, "A note is an object with a text.");
      writable_->set_tags(run, {{"note", body["text"].get<std::string>()}});
    }
    answer(response, {{"done", true}});
  }

  ServeOptions options_;
  AccessRules rules_;
  std::mutex mutex_;  // a connection of the store serves one thread at a time
  std::unique_ptr<Store> writable_;
  std::unique_ptr<StoreReader> read_only_;
  StoreReader* store_ = nullptr;
  httplib::Server server_;
};

}  // namespace

void serve_dashboard(const ServeOptions& options) { DashboardServer(options).run(); }

}  // namespace fk
