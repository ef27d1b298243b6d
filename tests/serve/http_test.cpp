// Connections: what clients do wrong, and what they must not do to others.
#include <fmt/format.h>

#include "tests/serve/server_fixture.h"

namespace fk {
namespace {

using HttpTest = ServerTest;

TEST_F(HttpTest, AConnectionServesOneRequestAfterTheOther) {
  TestClient client(start());
  for (int i = 0; i < 3; ++i) {
    client.send(get_text("/health"));
    EXPECT_EQ(client.read_answer().status, 200);
  }
  client.send(get_text("/version") + get_text("/nothing") + get_text("/health"));  // without waiting for answers
  EXPECT_EQ(client.read_answer().json(), (Json{{"version", "1.2.3"}}));
  EXPECT_EQ(client.read_answer().status, 404);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(HttpTest, ConnectionCloseAndHttp10EndTheConnection) {
  start();
  TestClient one(port);
  one.send(get_text("/version", "Connection: close\r\n"));
  EXPECT_EQ(one.read_answer().field("Connection"), "close");
  EXPECT_TRUE(one.at_end());
  TestClient two(port);
  std::string body = R"({"prompt": "a", "stream": true, "max_tokens": 2})";
  two.send(
      fmt::format("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body));
  Answer answer = two.read_answer();
  EXPECT_EQ(answer.field("Transfer-Encoding"), "");
  EXPECT_EQ(events(answer.body).size(), 2U);
}

TEST_F(HttpTest, HeadHasTheHeaderAlone) {
  TestClient client(start());
  client.send("HEAD /version HTTP/1.1\r\nHost: x\r\n\r\n");
  std::string header = client.read_header();
  EXPECT_NE(header.find("Content-Length: 19"), std::string::npos) << header;
  client.send(get_text("/version"));
  EXPECT_EQ(client.read_answer().body, R"({"version":"1.2.3"})");
}

TEST_F(HttpTest, BodiesMayComeInChunksAndAfterContinue) {
  TestClient client(start());
  std::string head = "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
  client.send(head + "Transfer-Encoding: chunked\r\n\r\n");
  client.send("a\r\n{\"prompt\":\r\n4\r\n\"ab\"\r\n");
  client.send("1\r\n}\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_answer().json()["tokens"], (Json{97, 98}));
  client.send(head + "Content-Length: 15\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send(R"({"prompt": "c"})");
  EXPECT_EQ(client.read_answer().json()["tokens"], (Json{99}));
}

TEST_F(HttpTest, LargeBodiesAreRefused) {
  options.http.max_body_bytes = 1000;
  start();
  TestClient by_length(port);
  by_length.send(
      "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000000\r\n\r\n");
  Answer refused = by_length.read_answer();
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.json()["error"]["type"], "invalid_request_error");
  TestClient by_count(port);
  by_count.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                std::string(2000, ' ') + "\r\n");
  EXPECT_EQ(by_count.read_answer().status, 413);
  // All of it is sent before the answer is read.
  TestClient stubborn(port);
  stubborn.send(post_text("/tokenize", std::string(3'000'000, ' ')));
  EXPECT_EQ(stubborn.read_answer().status, 413);
  EXPECT_EQ(get(port, "/health").status, 200);
}

TEST_F(HttpTest, WhatIsNoHttpIsRefused) {
  start();
  EXPECT_EQ(ask(port, "nonsense\r\n\r\n").status, 400);
  EXPECT_EQ(ask(port, "GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n").status, 400);
  EXPECT_EQ(ask(port, std::string("GET / HTTP/1.1\r\nA: \0\r\n\r\n", 24)).status, 400);
  EXPECT_EQ(ask(port, "GET / HTTP/1.1\r\nA: " + std::string(100'000, 'a') + "\r\n\r\n").status, 431);
  { TestClient gone(port); }
  {
    TestClient half(port);
    half.send("POST /tokenize HTTP/1.1\r\nContent-Length: 50\r\n\r\n{");
  }
  EXPECT_EQ(get(port, "/health").status, 200);
}

TEST_F(HttpTest, SlowRequestsEndAndOthersDoNotWait) {
  options.http.header_timeout = options.http.body_timeout = options.http.idle_timeout = std::chrono::milliseconds(50);
  start();
  TestClient idle(port), header(port), body(port);
  header.send("GET /hea");
  body.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{");
  EXPECT_TRUE(idle.at_end());
  EXPECT_TRUE(header.at_end());
  EXPECT_TRUE(body.at_end());
}

TEST_F(HttpTest, AClientThatLeavesItsStreamCancelsIt) {
  engine.answers = false;
  start();
  TestClient client(port);
  client.send(post_text("/v1/completions", R"({"prompt": "a", "stream": true, "max_tokens": 50})"));
  Request request = engine.request(0);
  engine.push(0, words(request, 0, 1, FinishReason::kNone));
  EXPECT_NE(client.read_until("w0 ").find("text/event-stream"), std::string::npos);
  client.close();
  engine.wait_for_cancelled(1);
}

TEST_F(HttpTest, AClientThatLeavesBeforeItsAnswerCancelsAllOfIt) {
  engine.answers = false;
  start();
  TestClient client(port);
  client.send(post_text("/v1/completions", R"({"prompt": ["a", "b"], "n": 2})"));
  engine.wait_for_requests(4);
  client.close();
  engine.wait_for_cancelled(4);
}

TEST_F(HttpTest, AClientThatDoesNotReadIsCutOff) {
  engine.answers = false;
  options.http.max_unsent_bytes = 100'000;
  start();
  TestClient slow(port), other(port);
  slow.shrink_receive_buffer();
  slow.send(post_text("/v1/completions", R"({"prompt": "a", "stream": true, "max_tokens": 50})"));
  engine.wait_for_requests(1);
  other.send(post_text("/v1/completions", R"({"prompt": "b", "stream": true, "max_tokens": 50})"));
  Request request = engine.request(1);
  // More than the sockets' buffers take; the other stream goes on between.
  RequestOutput large;
  large.tokens = {1};
  large.text = std::string(1'000'000, 'x');
  for (int i = 0; i < 40; ++i) {
    engine.push(0, large);
    engine.push(1, words(request, i, 1, i == 39 ? FinishReason::kLength : FinishReason::kNone));
  }
  engine.wait_for_cancelled(1);
  EXPECT_EQ(events(other.read_answer().body).size(), 40U);
}

TEST_F(HttpTest, AWriteThatTakesTooLongCutsTheClientOff) {
  engine.answers = false;
  options.http.max_unsent_bytes = size_t{1} << 30;
  options.http.write_timeout = std::chrono::milliseconds(50);
  start();
  TestClient slow(port);
  slow.shrink_receive_buffer();
  slow.send(post_text("/v1/completions", R"({"prompt": "a", "stream": true, "max_tokens": 50})"));
  RequestOutput large;
  large.tokens = {1};
  large.text = std::string(20'000'000, 'x');
  engine.push(0, large);
  engine.wait_for_cancelled(1);
}

TEST_F(HttpTest, APortInUseIsOneSentence) {
  start();
  ServerOptions again = options;
  again.http.port = port;
  // Asked before a model is loaded, and when the server begins.
  for (bool asked : {true, false}) try {
      if (asked)
        Server::check_options(again);
      else
        Server second(again, model, &engine, nullptr);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), fmt::format("Port {} of 127.0.0.1 is in use; give another --port.", port));
    }
  stop();
  Server::check_options(again);
  again.access_log = "/nowhere/log";
  EXPECT_THROW(Server::check_options(again), Error);
}

TEST_F(HttpTest, DrainingRefusesNewWorkAndFinishesTheOld) {
  engine.answers = false;
  start();
  TestClient running(port), other(port);
  running.send(post_text("/v1/completions", R"({"prompt": "a", "max_tokens": 3})"));
  Request request = engine.request(0);
  other.send(get_text("/health"));
  EXPECT_EQ(other.read_answer().status, 200);
  server->drain();
  // On the same connection: whoever still has one is told.
  other.send(post_text("/v1/completions", R"({"prompt": "b"})"));
  Answer refused = other.read_answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.field("Retry-After"), "1");
  other.send(get_text("/health"));
  EXPECT_EQ(other.read_answer().status, 503);
  engine.push(0, words(request, 0, 3, FinishReason::kLength));
  EXPECT_EQ(running.read_answer().json()["choices"][0]["text"], "w0 w1 w2 ");
  thread.join();  // run() returns
}

TEST_F(HttpTest, DrainingEndsAfterItsTime) {
  engine.answers = false;
  options.drain_timeout = std::chrono::milliseconds(10);
  start();
  TestClient running(port);
  running.send(post_text("/v1/completions", R"({"prompt": "a", "max_tokens": 3})"));
  engine.wait_for_requests(1);
  server->drain();
  EXPECT_EQ(running.read_answer().status, 503);
  engine.wait_for_cancelled(1);
  thread.join();
}

}  // namespace
}  // namespace fk
