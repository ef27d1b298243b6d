// The only file of this folder that includes Boost.Beast, which takes many seconds to compile.
#include "bench/e2e/openai_client.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/e2e/sse_parser.h"
#include "core/error.h"

namespace fk {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;
using asio::ip::tcp;

struct Connection {
  explicit Connection(asio::io_context& io) : stream(io) {}
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
};

struct Answer {
  unsigned status = 0;
  bool keep = false;  // the connection can be used again
};
using Take = std::function<void(unsigned status, std::string_view piece)>;

constexpr uint64_t kMostOfAGet = uint64_t{8} << 20;
constexpr uint64_t kMostOfAStream = uint64_t{1} << 40;  // none at all fails in Boost 1.74 if the answer has a length

// Every request may have a connection of its own; most systems allow 1024 files unless asked for more.
void allow_many_sockets() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string sentence(const boost::system::error_code& error, const ServerAddress& server) {
  if (error == beast::error::timeout) return "the time limit of the request passed";
  if (error == asio::error::connection_refused)
    return fmt::format("nothing listens on {}:{}; start the server, or name another with --base-url", server.host,
                       server.port);
  if (error == http::error::partial_message || error == http::error::end_of_stream || error == asio::error::eof ||
      error == asio::error::connection_reset || error == asio::error::broken_pipe)
    return "the server closed the connection before the end of its answer";
  return fmt::format("the connection failed ({})", error.message());
}

class LoadClient {
 public:
  explicit LoadClient(const ClientOptions& options) : options_(options), gate_(io_) {
    gate_.expires_at(asio::steady_timer::time_point::max());
    boost::system::error_code error;
    addresses_ = tcp::resolver(io_).resolve(options.server.host, options.server.port, error);
    if (error) throw Error("The server {} was not found ({}).", options.server.host, error.message());
  }

  ServedLoad send(const std::vector<BenchRequest>& requests, const std::vector<double>& arrivals_s) {
    ServedLoad load;
    load.requests.resize(requests.size());
    std::vector<std::string> bodies;  // made before the clock starts
    for (const BenchRequest& request : requests) bodies.push_back(completion_body(request, options_.style));
    start_ = asio::steady_timer::clock_type::now();
    for (size_t i = 0; i < requests.size(); ++i) {
      load.requests[i].prompt_tokens = static_cast<int64_t>(requests[i].prompt_tokens.size());
      asio::co_spawn(io_, one_request(bodies[i], arrivals_s[i], load.requests[i]), asio::detached);
    }
    io_.run();
    load.duration_s = end_s_;
    return load;
  }

  // The body of a plain GET.
  std::string get(const std::string& path) {
    std::string body, failure;
    auto work = [&]() -> asio::awaitable<void> {
      try {
        Connection connection(io_);
        connection.stream.expires_after(std::chrono::seconds(10));
        co_await connection.stream.async_connect(addresses_, use_awaitable);
        const std::string request = head("GET", path) + "\r\n";
        const Take take = [&](unsigned, std::string_view piece) { body += piece; };
        const Answer answer = co_await ask(connection, request, kMostOfAGet, take);
        if (answer.status != 200)
          failure = fmt::format("the server answered {}: {}", answer.status, error_sentence(body));
      } catch (const boost::system::system_error& e) {
        failure = sentence(e.code(), options_.server);
      }
    };
    asio::co_spawn(io_, work(), asio::detached);
    io_.run();
    io_.restart();
    if (!failure.empty())
      throw Error("The server at {}:{} gives no {}: {}.", options_.server.host, options_.server.port, path, failure);
    return body;
  }

 private:
  double now_s() const { return std::chrono::duration<double>(asio::steady_timer::clock_type::now() - start_).count(); }

  // The first lines of a request.
  std::string head(std::string_view verb, const std::string& path) const {
    const ServerAddress& server = options_.server;
    std::string lines = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}:{}\r\nUser-Agent: fastkernels\r\n", verb, server.prefix,
                                    path, server.host, server.port);
    if (!options_.api_key.empty()) lines += fmt::format("Authorization: Bearer {}\r\n", options_.api_key);
    return lines;
  }

  asio::awaitable<void> one_request(const std::string& body, double arrival_s, RequestTiming& timing) {
    boost::system::error_code ignored;
    if (arrival_s > 0) {
      asio::steady_timer timer(io_);
      timer.expires_at(start_ +
                       std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(arrival_s)));
      co_await timer.async_wait(asio::redirect_error(use_awaitable, ignored));
    }
    while (options_.max_concurrency > 0 && active_ >= options_.max_concurrency)
      co_await gate_.async_wait(asio::redirect_error(use_awaitable, ignored));
    ++active_;
    timing.start_s = now_s();
    co_await exchange(body, timing);
    --active_;
    gate_.cancel_one();
    end_s_ = now_s();
    if (options_.progress) options_.progress(++ended_);
  }

  asio::awaitable<void> exchange(const std::string& body, RequestTiming& timing) {
    for (bool again = true; again;) {
      again = false;
      bool reused = !idle_.empty(), answered = false;
      std::unique_ptr<Connection> connection;
      if (reused) {
        connection = std::move(idle_.back());
        idle_.pop_back();
      } else {
        connection = std::make_unique<Connection>(io_);
      }
      try {
        connection->stream.expires_after(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options_.timeout_s)));
        if (!reused) {
          co_await connection->stream.async_connect(addresses_, use_awaitable);
          connection->stream.socket().set_option(tcp::no_delay(true));
        }
        bool keep = co_await complete(*connection, body, timing, answered);
        connection->stream.expires_never();
        if (keep) idle_.push_back(std::move(connection));
      } catch (const boost::system::system_error& e) {
        // A server may close a connection that had nothing to do while the request is on its way.
        again = reused && !answered && e.code() != beast::error::timeout;
        if (!again) timing.error = sentence(e.code(), options_.server);
      } catch (const std::exception& e) {
        timing.error = e.what();
      }
    }
  }

  // Sends the request and gives each piece of the answer to `take` as soon as it has arrived.
  static asio::awaitable<Answer> ask(Connection& connection, const std::string& request, uint64_t most, const Take& take,
                                     bool* answered = nullptr) {
    co_await asio::async_write(connection.stream, asio::buffer(request), use_awaitable);
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(most);
    co_await http::async_read_header(connection.stream, connection.buffer, parser, use_awaitable);
    if (answered) *answered = true;
    const unsigned status = parser.get().result_int();
    char piece[16384];
    while (!parser.is_done()) {
      parser.get().body().data = piece;
      parser.get().body().size = sizeof piece;
      boost::system::error_code error;
      // Some: what has arrived is read now, and its time is that of its tokens.
      co_await http::async_read_some(connection.stream, connection.buffer, parser,
                                     asio::redirect_error(use_awaitable, error));
      if (error && error != http::error::need_buffer) throw boost::system::system_error(error);
      take(status, std::string_view(piece, sizeof piece - parser.get().body().size));
    }
    co_return Answer{status, parser.get().keep_alive()};
  }

  // True where the connection can be used again.
  asio::awaitable<bool> complete(Connection& connection, const std::string& body, RequestTiming& timing, bool& answered) {
    const std::string request =
        head("POST", options_.style.endpoint) +
        fmt::format("Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body);
    StreamReader reader{*this, timing};
    std::string whole;  // of an answer that is no stream
    const Take take = [&](unsigned status, std::string_view got) {
      if (status == 200)
        reader.take(got);
      else if (whole.size() < 16384)
        whole += got;
    };
    const Answer answer = co_await ask(connection, request, kMostOfAStream, take, &answered);
    if (answer.status == 200)
      reader.end();
    else
      timing.error = fmt::format("the server answered {}: {}", answer.status, error_sentence(whole));
    co_return answer.keep;
  }

  // Turns the bytes of a stream into times.
  struct StreamReader {
    LoadClient& client;
    RequestTiming& timing;
    SseParser parser = {};
    double last_s = 0;
    int64_t texts = 0;
    std::optional<int64_t> counted = {};

    void take(std::string_view bytes) {
      double now = client.now_s();
      parser.feed(bytes, [&](std::string_view data) {
        StreamEvent event = read_stream_event(data);
        if (!event.error.empty() && timing.error.empty()) timing.error = event.error;
        if (event.prompt_tokens) timing.prompt_tokens = *event.prompt_tokens;
        if (event.completion_tokens) counted = event.completion_tokens;
        if (event.cached_tokens) timing.cached_tokens = *event.cached_tokens;
        if (event.text.empty()) return;
        if (texts++ == 0)
          timing.ttft_s = now - timing.start_s;
        else
          timing.itl_s.push_back(now - last_s);
        last_s = now;
        timing.e2el_s = now - timing.start_s;
      });
    }

    void end() {
      timing.output_tokens = counted.value_or(texts);
      if (!timing.error.empty()) return;
      if (parser.incomplete())
        timing.error = "the server closed the connection before the end of its answer";
      else if (texts == 0)
        timing.error = "the server sent no text";
    }
  };

  const ClientOptions& options_;
  asio::io_context io_{1};
  tcp::resolver::results_type addresses_;
  asio::steady_timer gate_;  // never expires; a request that ends wakes one that waits
  asio::steady_timer::time_point start_;
  std::vector<std::unique_ptr<Connection>> idle_;
  int64_t active_ = 0, ended_ = 0;
  double end_s_ = 0;
};

}  // namespace

ServedLoad send_load(const ClientOptions& options, const std::vector<BenchRequest>& requests,
                     const std::vector<double>& arrivals_s) {
  allow_many_sockets();
  return LoadClient(options).send(requests, arrivals_s);
}

std::string ask_model(const ServerAddress& server, const std::string& api_key) {
  ClientOptions options;
  options.server = server;
  options.api_key = api_key;
  std::string name = first_model(LoadClient(options).get("/v1/models"));
  if (name.empty()) throw Error("The server names no model in /v1/models; give one with --model.");
  return name;
}

std::optional<ServerCounts> ask_server_counts(const ServerAddress& server, const std::string& api_key) {
  ClientOptions options;
  options.server = server;
  options.api_key = api_key;
  std::string text;
  try {
    text = LoadClient(options).get("/metrics");
  } catch (const Error&) {  // other servers need not have it
    return std::nullopt;
  }
  auto count = [&](std::string_view name) { return prometheus_sum(text, name); };
  auto drafts = count("vllm:spec_decode_num_drafts_total"), tokens = count("vllm:spec_decode_num_draft_tokens_total"),
       accepted = count("vllm:spec_decode_num_accepted_tokens_total");
  if (!drafts || !tokens || !accepted) return std::nullopt;
  auto number = [](std::optional<double> value) { return static_cast<int64_t>(value.value_or(0)); };
  return ServerCounts{number(drafts), number(tokens), number(accepted), number(count("fastkernels:engine_steps_total")),
                      number(count("fastkernels:engine_compiled_steps_total"))};
}

}  // namespace fk
