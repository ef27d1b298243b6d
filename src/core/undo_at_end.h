// UndoAtEnd: processes and folders that must not outlive this program, should it be told to end in the middle.
#pragma once

#include <functional>

namespace fk {

class UndoAtEnd {
 public:
  UndoAtEnd() = default;
  ~UndoAtEnd() { forget(); }
  UndoAtEnd(const UndoAtEnd&) = delete;
  UndoAtEnd& operator=(const UndoAtEnd&) = delete;

  // Calls `make`; from then on `undo` is called at the latest by undo_everything(). There is no moment in between.
  void make(const std::function<void()>& make, std::function<void()> undo);
  void undo();    // now; nothing where that was done, or nothing made
  void forget();  // it is over by itself
};

// Undoes what others have made, the latest first, and makes every other thread wait that wants to make or undo
// something: the program has to end now.
void undo_everything();

}  // namespace fk
