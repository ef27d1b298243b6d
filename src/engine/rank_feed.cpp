#include "engine/rank_feed.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/check.h"

namespace fk {
namespace {

// The news of most steps are none, and those of others short: they go with the length in one exchange.
constexpr size_t kFirstBytes = 2048;

// Numbers as they lie in memory: all ranks run the same program on the same kind of machine.
class NewsWriter {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& text) {
    number(text.size());
    bytes += text;
  }
  void numbers(const std::vector<int64_t>& list) {
    number(list.size());
    bytes.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(int64_t));
  }

  std::string bytes;
};

class NewsReader {
 public:
  explicit NewsReader(const std::string& bytes) : rest_(bytes) {}

  template <class T>
  void number(T& value) {
    std::memcpy(&value, take(sizeof value), sizeof value);
  }
  size_t count() {
    size_t n = 0;
    number(n);
    return n;
  }
  void text(std::string& text) {
    const size_t n = count();
    text.assign(take(n), n);
  }
  void numbers(std::vector<int64_t>& list) {
    list.resize(count());
    const char* from = take(list.size() * sizeof(int64_t));
    if (!list.empty()) std::memcpy(list.data(), from, list.size() * sizeof(int64_t));
  }
  bool empty() const { return rest_.empty(); }

 private:
  const char* take(size_t bytes) {
    FK_CHECK(bytes <= rest_.size(), "the first rank told less than it said");
    const char* at = rest_.data();
    rest_.remove_prefix(bytes);
    return at;
  }

  std::string_view rest_;
};

// The fields of SamplingParams, one after the other.
template <class Params, class Visit>
void each_parameter(Params& p, Visit visit) {
  visit(p.temperature);
  visit(p.top_k);
  visit(p.top_p);
  visit(p.min_p);
  visit(p.seed);
  visit(p.repetition_penalty);
  visit(p.presence_penalty);
  visit(p.frequency_penalty);
}

void write_request(const Request& r, NewsWriter& to) {
  to.numbers(r.prompt);
  to.number(r.max_tokens);
  each_parameter(r.sampling, [&](auto value) { to.number(value); });
  to.number(r.sampling.logit_bias.size());
  for (auto [token, bias] : r.sampling.logit_bias) {
    to.number(token);
    to.number(bias);
  }
  to.numbers(r.stop_tokens);
  to.number(r.stop.size());
  for (const std::string& stop : r.stop) to.text(stop);
  to.number(r.ignore_eos);
  to.number(r.min_tokens);
  to.number(r.logprobs.value_or(-1));
  to.number(r.prompt_logprobs.value_or(-1));
  to.number(r.skip_special_tokens);
}

void read_request(NewsReader& from, Request& r) {
  from.numbers(r.prompt);
  from.number(r.max_tokens);
  each_parameter(r.sampling, [&](auto& value) { from.number(value); });
  r.sampling.logit_bias.resize(from.count());
  for (auto& [token, bias] : r.sampling.logit_bias) {
    from.number(token);
    from.number(bias);
  }
  from.numbers(r.stop_tokens);
  r.stop.resize(from.count());
  for (std::string& stop : r.stop) from.text(stop);
  from.number(r.ignore_eos);
  from.number(r.min_tokens);
  for (std::optional<int>* asked : {&r.logprobs, &r.prompt_logprobs}) {
    int number = -1;
    from.number(number);
    if (number >= 0) *asked = number;
  }
  from.number(r.skip_special_tokens);
}

}  // namespace

std::string pack_news(const RankNews& news) {
  NewsWriter to;
  to.number(news.over);
  to.number(news.events.size());
  for (const RankEvent& event : news.events) {
    to.number(event.id);
    to.number(event.end);
    if (event.end == FinishReason::kNone) write_request(event.request, to);
  }
  return std::move(to.bytes);
}

RankNews unpack_news(const std::string& bytes) {
  NewsReader from(bytes);
  RankNews news;
  from.number(news.over);
  news.events.resize(from.count());
  for (RankEvent& event : news.events) {
    from.number(event.id);
    from.number(event.end);
    if (event.end == FinishReason::kNone) read_request(from, event.request);
  }
  FK_CHECK(from.empty(), "the first rank told more than it said");
  return news;
}

void RankFeed::tell(const RankNews& news) {
  std::string bytes = pack_news(news);
  broadcast(bytes);
}

RankNews RankFeed::ask() {
  std::string bytes;
  broadcast(bytes);
  return unpack_news(bytes);
}

void RankFeed::broadcast(std::string& bytes) {
  std::byte first[sizeof(uint64_t) + kFirstBytes] = {};
  uint64_t length = bytes.size();
  std::memcpy(first, &length, sizeof length);
  std::memcpy(first + sizeof length, bytes.data(), std::min(bytes.size(), kFirstBytes));
  auto send = [&](void* data, size_t size) {
    ranks_.broadcast(View(data, Shape{static_cast<int64_t>(size)}, DType::kU8), 0, nullptr);
  };
  send(first, sizeof first);
  std::memcpy(&length, first, sizeof length);
  const size_t begun = std::min<size_t>(length, kFirstBytes);
  if (!leads()) {
    bytes.assign(reinterpret_cast<const char*>(first) + sizeof length, begun);
    bytes.resize(length);
  }
  if (length > begun) send(bytes.data() + begun, length - begun);
}

}  // namespace fk
