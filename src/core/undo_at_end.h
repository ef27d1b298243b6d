// UndoAtEnd: cleans up child processes and folders if the program is terminated early.
#pragma once

#include <functional>

namespace fk {

class UndoAtEnd {
 public:
  UndoAtEnd() = default;
  ~UndoAtEnd() { forget(); }
  UndoAtEnd(const UndoAtEnd&) = delete;
  UndoAtEnd& operator=(const UndoAtEnd&) = delete;

  // Calls `make` and registers `undo` in one atomic step; `undo` is called by undo_everything() at the latest.
  void make(const std::function<void()>& make, std::function<void()> undo);
  void undo();    // now; no effect if already undone, or if nothing was made
  void forget();  // nothing is left to undo
};

// Undoes everything, the latest first, and from then on blocks every other thread that makes or undoes something: the
// program is about to exit.
void undo_everything();

}  // namespace fk
