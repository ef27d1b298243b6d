// Server: an OpenAI-compatible server over one model.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "serve/embedding_queue.h"
#include "serve/http_server.h"
#include "serve/served_model.h"

namespace fk {

struct ServerOptions {
  HttpOptions http;
  std::string api_key;                                       // empty: none is needed
  std::optional<std::chrono::milliseconds> request_timeout;  // of requests to the model
  std::chrono::milliseconds drain_timeout{30'000};
  std::string access_log;  // "": none; "-": standard error; else a file
  std::string version;
};

class Server {
 public:
  // `engine`, for a language model, or `embeddings`, for an encoder; the other one is null. Both outlive the server.
  Server(ServerOptions options, ServedModel model, Engine* engine, EmbeddingQueue* embeddings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Throws the Error that the constructor would throw for an address in use or a log that cannot be written: asked
  // before a model is loaded.
  static void check_options(const ServerOptions& options);

  int port() const;
  std::string url() const;
  // From now on SIGTERM and SIGINT call drain(), and a second one ends at once. Before the address is told to anyone,
  // so that no signal ends the program in another way.
  void take_signals();
  // Answers until stop() is called.
  void run();

  // From any thread. drain(): refuses new work with 503, and stops when the running requests have ended, or, after
  // drain_timeout, are cancelled. stop(): without waiting for them.
  void drain();
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fk
