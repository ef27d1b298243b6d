#include "core/undo_at_end.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace fk {
namespace {

struct Made {
  std::mutex mutex;
  std::vector<std::pair<const UndoAtEnd*, std::function<void()>>> list;
};

// Never destroyed: threads may still be at work when the program ends.
Made& made() {
  static auto* all = new Made;
  return *all;
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
  std::lock_guard lock(made().mutex);
  make();
  made().list.emplace_back(this, std::move(undo));
}

void UndoAtEnd::undo() {
  std::lock_guard lock(made().mutex);
  if (std::function<void()> undo = take(this)) undo();
}

void UndoAtEnd::forget() {
  std::lock_guard lock(made().mutex);
  take(this);
}

void undo_everything() {
  made().mutex.lock();  // and never unlocked
  auto& list = made().list;
  while (!list.empty()) {
    std::function<void()> undo = std::move(list.back().second);
    list.pop_back();
    undo();
  }
}

}  // namespace fk
