#include "serve/server.h"

#include <fmt/format.h>

#include <exception>
#include <utility>
#include <vector>

#include "core/json.h"
#include "serve/api_error.h"
#include "serve/background.h"
#include "serve/embeddings.h"
#include "serve/fields.h"
#include "serve/generation.h"
#include "serve/generation_job.h"
#include "serve/live_page.h"
#include "serve/metrics.h"
#include "serve/router.h"
#include "serve/small_endpoints.h"

namespace fk {
namespace {

// Reading a body of this size takes about as long as a step of a small model; larger ones must not hold up the streams.
constexpr size_t kLargeBody = 16 * 1024;

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, ServedModel model, Engine* engine, EmbeddingQueue* embeddings)
      : options_(std::move(options)),
        model_(std::move(model)),
        engine_(engine),
        embeddings_(embeddings),
        log_(options_.access_log),
        router_(options_.api_key),
        http_(
            options_.http,
            [this](IncomingRequest request, const ReplyPtr& reply) { router_.handle(std::move(request), reply); },
            [this](const AccessRecord& record) { count(record); }) {
    limits_.timeout = options_.request_timeout;
    if (engine_ != nullptr) limits_.max_choices = engine_->limits().max_num_seqs + engine_->limits().max_waiting;
    add_routes();
  }

  HttpServer& http() { return http_; }
  const ServerOptions& options() const { return options_; }

  void drain() {
    if (std::exchange(draining_, true)) return;
    drained_at_ = std::chrono::steady_clock::now() + options_.drain_timeout;
    wait_until_idle();
  }
  bool draining() const { return draining_; }
  void stop() { http_.stop(std::chrono::seconds(2)); }
  // Requests to the model that are not answered yet.
  int64_t working() const { return work_.use_count() - 1; }

 private:
  void add_routes() {
    auto fixed = [this](std::string path, bool needs_key, std::function<HttpResponse()> make) {
      router_.add("GET", std::move(path), needs_key,
                  [make = std::move(make)](const IncomingRequest&, const ReplyPtr& reply) { reply->send(make()); });
    };
    fixed("/", false, [] { return live_page(); });
    fixed("/stats", false, [this] {
      return HttpResponse{.body = dump_json(metrics_now().live(model_.names.front(), engine_stats()), -1),
                          .headers = {{"Cache-Control", "no-store"}}};
    });
    fixed("/health", false, [this] {
      if (draining_) throw ApiError(503, "The server is shutting down.", "", "shutting_down");
      return HttpResponse{.type = "text/plain", .body = ""};
    });
    fixed("/metrics", false, [this] {
      return HttpResponse{.type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = metrics_now().prometheus(model_.names.front(), engine_stats())};
    });
    fixed("/version", false, [this] { return HttpResponse{.body = dump_json({{"version", options_.version}}, -1)}; });
    fixed("/openapi.json", false, [this] { return HttpResponse{.body = openapi_text(options_.version, model_)}; });
    fixed("/v1/models", true, [this] { return HttpResponse{.body = dump_json(models_json(model_), -1)}; });
    router_.add("GET", "/v1/models/*", true, [this](const IncomingRequest& request, const ReplyPtr& reply) {
      reply->send(
          {.body = dump_json(model_json(model_, request.path.substr(std::string_view("/v1/models/").size())), -1)});
    });
    post("/tokenize", [this](const Json& body) { return tokenize_json(model_, body); });
    post("/detokenize", [this](const Json& body) { return detokenize_json(model_, body); });
    router_.add("POST", "/v1/completions", true, [this](IncomingRequest request, const ReplyPtr& reply) {
      generate(std::move(request), reply, read_completion);
    });
    router_.add("POST", "/v1/chat/completions", true, [this](IncomingRequest request, const ReplyPtr& reply) {
      generate(std::move(request), reply, read_chat);
    });
    router_.add("POST", "/v1/embeddings", true,
                [this](IncomingRequest request, const ReplyPtr& reply) { embed(std::move(request), reply); });
  }

  void count(const AccessRecord& record) {
    ++metrics_.answers[{std::string(router_.pattern(record.path)), record.status}];
    log_.write(record);
  }

  // `read` makes something of the body, here or, for a large body, on another thread; then `use` goes on with it here.
  template <class Read, class Use>
  void prepare(IncomingRequest request, const ReplyPtr& reply, Read read, Use use) {
    using Made = decltype(read(std::declval<const Json&>()));
    if (request.body.size() < kLargeBody) return use(read(parse_body(request.body)));
    auto guarded = [reply](const auto& step) {
      try {
        step();
      } catch (const std::exception& e) {
        if (!reply->client_gone()) reply->send(ApiError::from(e).response());
      }
    };
    background_.run([=, body = std::move(request.body), box = http_.mailbox(), work = work_]() mutable {
      std::shared_ptr<Made> made;
      std::exception_ptr wrong;
      try {
        made = std::make_shared<Made>(read(parse_body(body)));
      } catch (...) {
        wrong = std::current_exception();
      }
      box->post([=] {
        guarded([&] {
          if (wrong) std::rethrow_exception(wrong);
          if (!reply->client_gone()) use(std::move(*made));
        });
      });
    });
  }

  void post(std::string path, std::function<Json(const Json&)> answer) {
    router_.add("POST", std::move(path), true,
                [this, answer = std::move(answer)](IncomingRequest request, const ReplyPtr& reply) {
                  prepare(std::move(request), reply, answer,
                          [reply](const Json& json) { reply->send({.body = dump_json(json, -1)}); });
                });
  }

  void refuse_new_work() const {
    if (draining_)
      throw ApiError(503, "The server is shutting down; send the request to another one.", "", "shutting_down");
  }

  template <class Read>
  void generate(IncomingRequest request, const ReplyPtr& reply, Read read) {
    refuse_new_work();
    if (engine_ == nullptr)
      throw ApiError(404,
                     fmt::format("{} is an encoder and generates no text; use /v1/embeddings.", model_.names.front()),
                     "model", "model_not_found");
    auto arrival = std::chrono::steady_clock::now();
    prepare(
        std::move(request), reply, [this, read](const Json& body) { return read(model_, body, limits_); },
        [this, reply, arrival](GenerationJob job) {
          GenerationTools tools{*engine_, model_, metrics_, http_.mailbox()};
          auto generation = std::make_shared<Generation>(std::move(tools), std::move(job), reply, work_, arrival);
          generation->start();
          std::erase_if(generations_, [](const auto& one) { return one.expired(); });
          generations_.push_back(generation);
        });
  }

  void embed(IncomingRequest request, const ReplyPtr& reply) {
    refuse_new_work();
    if (embeddings_ == nullptr)
      throw ApiError(404, fmt::format("{} is no encoder; /v1/embeddings needs one.", model_.names.front()), "model",
                     "model_not_found");
    prepare(
        std::move(request), reply, [this](const Json& body) { return read_embedding(model_, body); },
        [this, reply](EmbeddingJob job) {
          answer_embedding(std::move(job), *embeddings_, http_.mailbox(), reply, work_, metrics_);
        });
  }

  EngineStats engine_stats() const {
    if (engine_ != nullptr) return engine_->stats();
    EngineStats stats;
    if (embeddings_ == nullptr) return stats;
    EmbeddingStats own = embeddings_->stats();
    stats.running = own.running;
    stats.waiting = own.waiting;
    stats.prompt_tokens = own.tokens;
    stats.steps = own.batches;
    stats.finished = own.finished;
    return stats;
  }

  const Metrics& metrics_now() {
    metrics_.open_connections = http_.connections();
    return metrics_;
  }

  void wait_until_idle() {
    if (working() == 0) return stop();
    if (std::chrono::steady_clock::now() >= drained_at_) {
      for (const std::weak_ptr<Generation>& one : generations_)
        if (std::shared_ptr<Generation> generation = one.lock()) generation->shut_down();
      return stop();
    }
    http_.call_after(std::chrono::milliseconds(20), [this] { wait_until_idle(); });
  }

  ServerOptions options_;
  ServedModel model_;
  Engine* engine_;
  EmbeddingQueue* embeddings_;
  AccessLog log_;
  Metrics metrics_;
  JobLimits limits_;
  std::shared_ptr<void> work_ = std::make_shared<int>();  // owned once more by everything that is not answered yet
  std::vector<std::weak_ptr<Generation>> generations_;    // that may still run
  bool draining_ = false;
  std::chrono::steady_clock::time_point drained_at_;
  Router router_;
  HttpServer http_;
  Background background_;  // ends first: its jobs use all of the above
};

Server::Server(ServerOptions options, ServedModel model, Engine* engine, EmbeddingQueue* embeddings)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(model), engine, embeddings)) {}
Server::~Server() = default;

void Server::check_options(const ServerOptions& options) {
  HttpServer::check_address(options.http);
  AccessLog log(options.access_log);
}

int Server::port() const { return impl_->http().port(); }

std::string Server::url() const {
  std::string host = impl_->options().http.host;
  if (host == "localhost") host = "127.0.0.1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("http://{}:{}", host, port());
}

void Server::take_signals() {
  impl_->http().on_signals([this](int) {
    if (impl_->draining()) return impl_->stop();
    if (int64_t left = impl_->working(); left > 0)
      fmt::print(stderr, "[{} request{} still running; a second signal ends {}]\n", left, left == 1 ? " is" : "s are",
                 left == 1 ? "it" : "them");
    impl_->drain();
  });
}

void Server::run() { impl_->http().run(); }

void Server::drain() {
  impl_->http().mailbox()->post([this] { impl_->drain(); });
}
void Server::stop() {
  impl_->http().mailbox()->post([this] { impl_->stop(); });
}

}  // namespace fk
