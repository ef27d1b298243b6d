// AheadOfOthers: other programs interrupt the calling thread less while the object lives, and it need not wait for them
// when it is woken. Threads and processes that it starts meanwhile keep that. Root gets a higher priority and short
// slices of time, other users short slices only. Who started the program with a lower priority (nice) keeps it.
#pragma once

namespace fk {

class AheadOfOthers {
 public:
  AheadOfOthers();
  ~AheadOfOthers();
  AheadOfOthers(const AheadOfOthers&) = delete;
  AheadOfOthers& operator=(const AheadOfOthers&) = delete;

 private:
  int before_;
  bool raised_;
};

}  // namespace fk
