// Runs a test on several ranks: threads of this process with a communicator each.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/shared_ranks.h"

namespace fk {

// Calls body(communicator) on a thread for each rank. The error of the lowest rank that failed is thrown again.
inline void on_ranks(int64_t size, const std::function<void(Communicator&)>& body) {
  SharedRanks memory(size);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        std::unique_ptr<Communicator> ranks = memory.join(rank);
        body(*ranks);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace fk
