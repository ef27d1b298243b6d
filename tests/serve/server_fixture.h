// A server over a ScriptedEngine, on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/server.h"
#include "tests/serve/scripted_engine.h"
#include "tests/serve/test_client.h"

namespace fk {

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    options.http.port = 0;
    options.version = "1.2.3";
    model.names = {"tiny", "alias"};
    model.root = "./tiny";
    model.bytes_are_tokens = true;
    model.max_model_len = 128;
    model.vocab_size = 300;
    model.created = 1700000000;
    model.end_tokens = {2};
  }
  ~ServerTest() override { stop(); }

  // The port.
  int start(EmbeddingQueue* embeddings = nullptr) {
    server = std::make_unique<Server>(options, model, embeddings == nullptr ? &engine : nullptr, embeddings);
    port = server->port();
    thread = std::thread([this] { server->run(); });
    return port;
  }
  void stop() {
    if (!thread.joinable()) return;
    server->stop();
    thread.join();
  }

  ServerOptions options;
  ServedModel model;
  ScriptedEngine engine;
  std::unique_ptr<Server> server;
  std::thread thread;
  int port = 0;
};

// The JSON of all events of a stream, without [DONE], which must be the last.
inline std::vector<Json> events(const std::string& body) {
  std::vector<Json> all;
  bool done = false;
  for (size_t at = 0; at < body.size();) {
    size_t end = body.find("\n\n", at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "the last event is not complete";
      break;
    }
    std::string line = body.substr(at, end - at);
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    EXPECT_FALSE(done) << "an event after [DONE]";
    if (line == "data: [DONE]")
      done = true;
    else
      all.push_back(Json::parse(line.substr(6)));
    at = end + 2;
  }
  EXPECT_TRUE(done);
  return all;
}

}  // namespace fk
