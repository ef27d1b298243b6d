#include "core/undo_at_end.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace fk {
namespace {

struct Made {
  std::mutex mutex;
  std::vector<std::pair<const UndoAtEnd*, std::function<void()>>> list;
  std::atomic<std::thread::id> ending;  // the thread that ends the program and holds the mutex for good
};

// Never destroyed: threads may still be at work when the program ends.
Made& made() {
  static auto* all = new Made;
  return *all;
}

// The thread that ends the program still writes files, and must not wait for itself.
std::unique_lock<std::mutex> lock_list() {
  if (made().ending.load() == std::this_thread::get_id()) return {};
  return std::unique_lock(made().mutex);
}

// With the lock held.
std::function<void()> take(const UndoAtEnd* owner) {
  auto& list = made().list;
  auto found = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == owner; });
  if (found == list.end()) return {};
  std::function<void()> undo = std::move(found->second);
  list.erase(found);
  return undo;
}

}  // namespace

void UndoAtEnd::make(const std::function<void()>& make, std::function<void()> undo) {
  auto lock = lock_list();
  make();
  made().list.emplace_back(this, std::move(undo));
}

void UndoAtEnd::undo() {
  auto lock = lock_list();
  if (std::function<void()> undo = take(this)) undo();
}

void UndoAtEnd::forget() {
  auto lock = lock_list();
  take(this);
}

void undo_everything() {
  made().mutex.lock();  // and never unlocked
  made().ending = std::this_thread::get_id();
  auto& list = made().list;
  while (!list.empty()) {
    std::function<void()> undo = std::move(list.back().second);
    list.pop_back();
    undo();
  }
}

}  // namespace fk
