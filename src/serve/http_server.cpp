#include "serve/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cerrno>
#include <exception>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "serve/api_error.h"
#include "serve/http_exchange.h"

namespace fk {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxHeaderBytes = 32 * 1024;

auto into(error_code& ec) { return asio::redirect_error(asio::use_awaitable, ec); }

}  // namespace

class HttpConnection;

struct HttpServer::State {
  State(HttpOptions o, HttpHandler h, std::function<void(const AccessRecord&)> e)
      : options(std::move(o)), handler(std::move(h)), ended(std::move(e)), acceptor(io), signals(io), give_up(io) {}

  HttpOptions options;
  HttpHandler handler;
  std::function<void(const AccessRecord&)> ended;
  bool stopping = false;
  // Before io, which destroys the connections that are left.
  std::set<HttpConnection*> connections;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer give_up;
  std::function<void(int)> signal_job;
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();

  void listen();
  asio::awaitable<void> accept();
  void wait_for_signal();
  void end_if_stopped() {
    if (stopping && connections.empty()) io.stop();
  }
};

// A client's connection: requests one after the other.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, HttpServer::State& server)
      : stream_(std::move(socket)), server_(server), changed_(server.io) {
    changed_.expires_at(Clock::time_point::max());
    error_code ignored;
    tcp::endpoint peer = stream_.socket().remote_endpoint(ignored);
    client_ = peer.address().to_string(ignored);
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    server_.connections.insert(this);
  }
  ~HttpConnection() {
    server_.connections.erase(this);
    server_.end_if_stopped();
  }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // A coroutine starts after its caller has gone on: its argument keeps the connection.
  static asio::awaitable<void> run(std::shared_ptr<HttpConnection> self) {
    bool more = true;
    while (more && !self->server_.stopping) more = co_await self->one_request();
    error_code ignored;
    self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (!self->lingers_) co_return;
    // The client may still be sending. To close now would reset the connection, and the client might lose the answer.
    self->stream_.expires_after(std::chrono::seconds(30));
    char rest[16 * 1024];
    error_code ec;
    while (!ec) co_await self->stream_.async_read_some(asio::buffer(rest), into(ec));
  }

  void close_if_idle() {
    if (idle_) stream_.close();
  }
  void close() { stream_.close(); }

 private:
  using Parser = http::request_parser<http::string_body>;

  // False: the connection ends.
  asio::awaitable<bool> one_request() {
    error_code ec;
    if (buffer_.size() == 0) {
      idle_ = true;
      stream_.expires_after(server_.options.idle_timeout);
      size_t got = co_await stream_.async_read_some(buffer_.prepare(4096), into(ec));
      idle_ = false;
      if (ec) co_return false;
      buffer_.commit(got);
    }
    begin_ = Clock::now();
    Parser parser;
    parser.header_limit(kMaxHeaderBytes);
    parser.body_limit(server_.options.max_body_bytes);
    stream_.expires_after(server_.options.header_timeout);
    co_await http::async_read_header(stream_, buffer_, parser, into(ec));
    if (ec == http::error::end_of_stream || ec == asio::error::operation_aborted) co_return false;

    auto exchange = std::make_shared<HttpExchange>([this](bool gone) { wake(gone); }, server_.options.max_unsent_bytes);
    describe(parser, *exchange);
    if (!ec && !parser.is_done()) {
      if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
        constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()), into(ec));
      }
      stream_.expires_after(server_.options.body_timeout);
      if (!ec) co_await http::async_read(stream_, buffer_, parser, into(ec));
    }
    if (ec) {
      if (!refuse(ec, *exchange)) co_return false;
    } else {
      hand_over(parser, exchange);
    }
    bool sent = co_await send_answer(exchange);
    log(*exchange, sent);
    co_return sent && exchange->keep_alive;
  }

  void describe(const Parser& parser, HttpExchange& exchange) {
    const auto& message = parser.get();
    exchange.access.client = client_;
    exchange.access.method = std::string(message.method_string());
    std::string_view target(message.target().data(), message.target().size());
    exchange.access.path = percent_decoded(target.substr(0, target.find('?')));
    if (!parser.is_header_done()) return;
    exchange.keep_alive = message.keep_alive() && !server_.stopping;
    exchange.speaks_http_1_1 = message.version() >= 11;
    exchange.without_body = message.method() == http::verb::head;
  }

  // A request that cannot be read. False: there is nobody to answer.
  bool refuse(const error_code& ec, HttpExchange& exchange) {
    ApiError error(400, "The request is not valid HTTP.");
    if (ec == http::error::body_limit)
      error = ApiError(413, fmt::format("The body is larger than the {} bytes that --max-body-bytes allows.",
                                        server_.options.max_body_bytes));
    else if (ec == http::error::header_limit)
      error = ApiError(431, fmt::format("The header is larger than {} bytes.", kMaxHeaderBytes));
    else if (ec == beast::error::timeout)
      return false;  // the stream is closed already
    else if (ec == http::error::partial_message ||
             ec.category() != http::make_error_code(http::error::end_of_stream).category())
      return false;
    lingers_ = true;
    exchange.keep_alive = false;
    exchange.send(error.response());
    return true;
  }

  void hand_over(Parser& parser, const std::shared_ptr<HttpExchange>& exchange) {
    auto& message = parser.get();
    auto text = [](beast::string_view view) { return std::string(view.data(), view.size()); };
    IncomingRequest request;
    request.method = exchange->access.method;
    request.path = exchange->access.path;
    std::string target = text(message.target());
    if (size_t mark = target.find('?'); mark != std::string::npos) request.query = target.substr(mark + 1);
    request.authorization = text(message[http::field::authorization]);
    request.content_type = text(message[http::field::content_type]);
    request.content_encoding = text(message[http::field::content_encoding]);
    request.client = client_;
    request.body = std::move(message.body());
    try {
      server_.handler(std::move(request), exchange);
    } catch (const std::exception& e) {
      exchange->send(ApiError(500, e.what()).response());
    }
  }

  // Something changed for the connection. A client that is gone, or does not read, must not hold up a write.
  void wake(bool gone) {
    changed_.cancel();
    if (gone) stream_.close();
  }

  // Sends what the handler writes until it has finished. False: the client has left.
  asio::awaitable<bool> send_answer(std::shared_ptr<HttpExchange> exchange) {
    error_code ec;
    if (!exchange->finished()) {
      watching_ = true;
      asio::co_spawn(server_.io, watch(shared_from_this(), exchange), asio::detached);
    }
    while (!exchange->client_gone()) {
      if (exchange->has_text()) {
        std::string text = exchange->take();
        exchange->access.sent_bytes += text.size();
        constexpr size_t kPiece = 64 * 1024;
        for (size_t at = 0; at < text.size() && !ec; at += kPiece) {
          stream_.expires_after(server_.options.write_timeout);
          size_t size = std::min(kPiece, text.size() - at);
          co_await asio::async_write(stream_, asio::buffer(text.data() + at, size), into(ec));
        }
        if (ec) exchange->leave();
      } else if (exchange->finished()) {
        break;
      } else {
        error_code cancelled;
        co_await changed_.async_wait(into(cancelled));
      }
    }
    bool gone = exchange->client_gone();
    exchange->complete();
    if (watching_) {
      error_code ignored;
      if (gone)
        stream_.close();
      else
        stream_.socket().cancel(ignored);
      while (watching_) {
        error_code cancelled;
        co_await changed_.async_wait(into(cancelled));
      }
    }
    co_return !gone;
  }

  // Notices that the client closes its side while the answer is being made.
  static asio::awaitable<void> watch(std::shared_ptr<HttpConnection> self, std::shared_ptr<HttpExchange> exchange) {
    error_code ec;
    tcp::socket& socket = self->stream_.socket();
    // The answer may have been complete before this began.
    if (!exchange->is_complete()) co_await socket.async_wait(tcp::socket::wait_read, into(ec));
    // Anything to read is the next request, which waits; from then on only failing writes tell.
    if (!ec && !exchange->is_complete()) {
      char byte = 0;
      ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) exchange->leave();
    } else if (ec && ec != asio::error::operation_aborted) {
      exchange->leave();
    }
    self->watching_ = false;
    self->changed_.cancel();
  }

  void log(HttpExchange& exchange, bool sent) {
    AccessRecord& record = exchange.access;
    record.client_gone = !sent;
    if (!exchange.begun()) record.status = 499;
    record.duration_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin_).count();
    server_.ended(record);
  }

  beast::tcp_stream stream_;
  HttpServer::State& server_;
  asio::steady_timer changed_;  // never expires; cancelled when there is something to do
  beast::flat_buffer buffer_;
  std::string client_;
  Clock::time_point begin_;
  bool idle_ = false, watching_ = false, lingers_ = false;
};

namespace {

// Has the address of the options; nobody can connect before listen().
void bind(tcp::acceptor& acceptor, asio::io_context& io, const HttpOptions& options, error_code& ec) {
  std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  auto address = asio::ip::make_address(host, ec);
  if (ec) {
    tcp::resolver resolver(io);
    auto found = resolver.resolve(host, "", ec);
    if (ec || found.empty())
      throw Error("The --host '{}' is no address of this machine; give one as 127.0.0.1 or 0.0.0.0.", options.host);
    address = found.begin()->endpoint().address();
  }
  tcp::endpoint endpoint(address, static_cast<unsigned short>(options.port));
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
}

void throw_if_failed(const error_code& ec, const HttpOptions& options) {
  if (ec == asio::error::address_in_use)
    throw Error("Port {} of {} is in use; give another --port.", options.port, options.host);
  if (ec == asio::error::access_denied)
    throw Error("Port {} needs more rights than this user has; give a --port of 1024 or more.", options.port);
  if (ec) throw Error("The server cannot listen on {}, port {}: {}.", options.host, options.port, ec.message());
}

}  // namespace

void HttpServer::State::listen() {
  error_code ec;
  bind(acceptor, io, options, ec);
  if (!ec) acceptor.listen(1024, ec);
  throw_if_failed(ec, options);
}

void HttpServer::check_address(const HttpOptions& options) {
  asio::io_context io{1};
  tcp::acceptor acceptor(io);
  error_code ec;
  bind(acceptor, io, options, ec);
  throw_if_failed(ec, options);
}

asio::awaitable<void> HttpServer::State::accept() {
  while (!stopping) {
    error_code ec;
    tcp::socket socket = co_await acceptor.async_accept(into(ec));
    if (!ec) {
      auto connection = std::make_shared<HttpConnection>(std::move(socket), *this);
      asio::co_spawn(io, HttpConnection::run(std::move(connection)), asio::detached);
    } else if (!stopping) {
      // Out of file descriptors, for example: those who wait are accepted when others have left.
      asio::steady_timer pause(io, std::chrono::milliseconds(50));
      error_code ignored;
      co_await pause.async_wait(into(ignored));
    }
  }
}

void HttpServer::State::wait_for_signal() {
  signals.async_wait([this](const error_code& ec, int signal) {
    if (ec) return;
    signal_job(signal);
    wait_for_signal();
  });
}

HttpServer::HttpServer(HttpOptions options, HttpHandler handler, std::function<void(const AccessRecord&)> ended)
    : state_(std::make_unique<State>(std::move(options), std::move(handler), std::move(ended))) {
  state_->listen();
  state_->mailbox->open([state = state_.get()] { asio::post(state->io, [state] { state->mailbox->run_all(); }); });
}

HttpServer::~HttpServer() {
  state_->mailbox->close();
  state_->stopping = false;  // connections that are destroyed now stop nothing
}

int HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }
const std::shared_ptr<Mailbox>& HttpServer::mailbox() const { return state_->mailbox; }
int64_t HttpServer::connections() const { return static_cast<int64_t>(state_->connections.size()); }

void HttpServer::run() {
  asio::co_spawn(state_->io, state_->accept(), asio::detached);
  auto work = asio::make_work_guard(state_->io);
  state_->io.run();
}

void HttpServer::call_after(std::chrono::milliseconds delay, std::function<void()> job) {
  auto timer = std::make_shared<asio::steady_timer>(state_->io, delay);
  timer->async_wait([timer, job = std::move(job)](const error_code& ec) {
    if (!ec) job();
  });
}

void HttpServer::on_signals(std::function<void(int signal)> job) {
  state_->signal_job = std::move(job);
  state_->signals.add(SIGINT);
  state_->signals.add(SIGTERM);
  state_->wait_for_signal();
}

void HttpServer::stop(std::chrono::milliseconds patience) {
  if (state_->stopping) return;
  state_->stopping = true;
  error_code ignored;
  state_->acceptor.close(ignored);
  for (HttpConnection* connection : state_->connections) connection->close_if_idle();
  state_->give_up.expires_after(patience);
  state_->give_up.async_wait([state = state_.get()](const error_code&) { state->io.stop(); });
  // Not at once: answers that were just finished are still to be sent.
  asio::post(state_->io, [state = state_.get()] { state->end_if_stopped(); });
}

}  // namespace fk
