// SharedRanks: memory that the ranks on one machine share, and the communicator over it.
//
// The ranks are processes that inherit the memory's file, or threads of one process. Each rank has two slots, used in
// turn: it writes one, waits until all have written theirs, and reads the others'. It writes a slot again only after
// the next wait, which no rank passes before it has read, so one wait per exchange is enough.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/communicator.h"

namespace fk {

inline constexpr int64_t kMaxSharedRanks = 64;

class SharedRanks {
 public:
  // New memory for `size` ranks.
  explicit SharedRanks(int64_t size);
  // The memory behind an inherited file. Throws Error if it was not made for `size` ranks.
  SharedRanks(int file, int64_t size);
  ~SharedRanks();
  SharedRanks(const SharedRanks&) = delete;
  SharedRanks& operator=(const SharedRanks&) = delete;

  int file() const { return file_; }

  // `while_waiting` is called now and then while this rank waits for others, and throws if one of them is lost. The
  // memory must outlive the communicator.
  std::unique_ptr<Communicator> join(int64_t rank, std::function<void()> while_waiting = {});

 private:
  void map(int64_t size);

  int file_ = -1;
  int64_t size_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace fk
