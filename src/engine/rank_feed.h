// RankFeed: with several ranks every rank must plan the same steps, but requests reach the first rank alone. Before
// each step the first rank tells the others what has come since the last one: new requests, and requests that end for a
// reason that the others cannot see (a client that left, a deadline). What follows from the tokens every rank finds out
// for itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "engine/request.h"

namespace fk {

// What happens to a request before a step.
struct RankEvent {
  RequestId id = 0;
  FinishReason end = FinishReason::kNone;  // kNone: it is new
  Request request = {};                    // of a new one; without its deadline
};

struct RankNews {
  std::vector<RankEvent> events;
  bool over = false;  // there are no more steps
};

std::string pack_news(const RankNews& news);
RankNews unpack_news(const std::string& bytes);

class RankFeed {
 public:
  // Of hosts; it must outlive the feed.
  explicit RankFeed(Communicator& ranks) : ranks_(ranks) {}

  bool leads() const { return ranks_.rank() == 0; }
  // The first rank tells its news while all others ask for them. Both throw Error if a rank is lost.
  void tell(const RankNews& news);
  RankNews ask();

 private:
  void broadcast(std::string& bytes);

  Communicator& ranks_;
};

}  // namespace fk
