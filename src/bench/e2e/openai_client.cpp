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
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>

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
        http::request<http::empty_body> request{http::verb::get, options_.server.prefix + path, 11};
        set_fields(request);
        co_await http::async_write(connection.stream, request, use_awaitable);
        http::response<http::string_body> response;
        co_await http::async_read(connection.stream, connection.buffer, response, use_awaitable);
        body = response.body();
        if (response.result_int() != 200)
          failure = fmt::format("the server answered {}: {}", response.result_int(), error_sentence(body));
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

  template <class Message>
  void set_fields(Message& message) const {
    message.set(http::field::host, fmt::format("{}:{}", options_.server.host, options_.server.port));
    message.set(http::field::user_agent, "fastkernels");
    if (!options_.api_key.empty()) message.set(http::field::authorization, "Bearer " + options_.api_key);
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
        bool keep = co_await ask(*connection, body, timing, answered);
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

  // True where the connection can be used again.
  asio::awaitable<bool> ask(Connection& connection, const std::string& body, RequestTiming& timing, bool& answered) {
    http::request<http::string_body> request{http::verb::post, options_.server.prefix + options_.style.endpoint, 11};
    set_fields(request);
    request.set(http::field::content_type, "application/json");
    request.set(http::field::accept, "text/event-stream");
    request.body() = body;
    request.prepare_payload();
    co_await http::async_write(connection.stream, request, use_awaitable);
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(uint64_t{1} << 40);  // none at all fails in Boost 1.74 if the answer has a length
    co_await http::async_read_header(connection.stream, connection.buffer, parser, use_awaitable);
    answered = true;
    const unsigned status = parser.get().result_int();
    StreamReader reader{*this, timing};
    char piece[16384];
    std::string whole;  // of an answer that is no stream
    while (!parser.is_done()) {
      parser.get().body().data = piece;
      parser.get().body().size = sizeof piece;
      boost::system::error_code error;
      // Some: what has arrived is read now, and its time is that of its tokens.
      co_await http::async_read_some(connection.stream, connection.buffer, parser,
                                     asio::redirect_error(use_awaitable, error));
      if (error && error != http::error::need_buffer) throw boost::system::system_error(error);
      std::string_view got(piece, sizeof piece - parser.get().body().size);
      if (status == 200)
        reader.take(got);
      else if (whole.size() < sizeof piece)
        whole += got;
    }
    if (status == 200)
      reader.end();
    else
      timing.error = fmt::format("the server answered {}: {}", status, error_sentence(whole));
    co_return parser.get().keep_alive();
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
