// CudaPrinter: the statements of a kernel as the text of one thread's work.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/element_text.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/codegen/thread_layout.h"

namespace fk {

// Rows inside of a kernel that does more: the threads that share a row and the results that must be in memory. What
// threads share is at a place that the text around says.
struct SharedRow {
  int threads = 32;  // one warp, or the block
  std::set<std::string> kept = {};
};

class CudaPrinter {
 public:
  // `constants`, `updated`: as in RegionText. Throws NoLoops where there is no such kernel.
  CudaPrinter(const LoopProgram& loops, const std::set<std::string>& constants,
              const std::map<std::string, std::string>& updated);
  CudaPrinter(const LoopProgram& loops, const std::set<std::string>& constants, const SharedRow& row);

  // Everything between the parameters of a kernel and its last brace.
  std::string body();

  const ThreadLayout& layout() const { return layout_; }
  int64_t shared_bytes() const { return shared_bytes_; }

  // The statements of one row, l0, of a thread, of which `thread` is the number. Arrays of shared_arrays() are declared
  // outside.
  std::string row_text() { return row_lines() + works_text(); }
  struct SharedArray {
    std::string name;
    DType dtype = DType::kF32;
    int64_t elements = 0;
  };
  std::vector<SharedArray> shared_arrays() const;
  // Arrays that are loaded by packs, once the text is written.
  const std::set<std::string>& packed_arrays() const { return packed_; }

 private:
  // Statements that become one piece of text: a variable, a fold, a table, or stores that share a loop.
  struct Work {
    const LoopNest* nest = nullptr;
    LoopStatement::Kind kind = LoopStatement::Kind::kStore;
    std::vector<const LoopStatement*> statements = {};
    std::vector<const LoopStatement*> scalars = {};  // of each element's own item, where a thread has no item
    int loop = -1;
    bool of_row = false;
  };
  // Elements that a thread has loaded.
  struct Load {
    std::string name, declaration, text;
    std::set<std::string> needs;  // variables
    bool constant = false;
    bool done = false;
  };
  struct Stored {
    int loop = -1;
    std::string index;
    size_t work = 0;
    DType dtype = DType::kF32;
    bool shared = false;  // other threads, or other loops, read it
  };

  void collect_work();
  void find_shared();
  void check_updates(const std::map<std::string, std::string>& updated) const;
  bool is_array(std::string_view word) const;
  bool is_written(const std::string& array) const { return stored_.count(array) > 0; }
  bool is_own(const ElementText& e, int loop, size_t work) const;
  // Arrays that the work reads and other threads may have written.
  std::set<std::string> read_from_others(size_t work) const;

  std::string suffix_of_leads(int loop) const;
  std::string in_loop(const std::string& text, int loop) const;
  std::string value_text(const std::string& value, int loop, size_t work, std::string& loads);
  std::string loaded(const ElementText& e, int loop, std::string& loads);
  std::string ready_loads(bool constants_only);

  std::string loop_variables(int loop) const;
  std::string item_variables(int loop, const std::string& item) const;
  std::string over_packs(int loop, const std::string& inside, size_t depth) const;
  std::string element_loop(int loop, const std::string& loads, const std::vector<std::string>& lines,
                           size_t depth) const;
  std::string work_text(size_t work);
  std::string fold_text(const LoopStatement& s, int loop, size_t work);
  std::string group_text(const Work& w, size_t work);
  std::string fill_text(const LoopStatement& s, int loop, size_t work);
  std::string store_of(const LoopStatement& s, int loop) const;
  std::string works_text();
  std::string row_lines() const;

  const LoopProgram& loops_;
  const std::set<std::string>& constants_;
  const SharedRow* row_ = nullptr;  // nullptr: the kernel does nothing else
  ThreadLayout layout_;
  std::vector<Work> works_;
  std::map<const LoopStatement*, std::string> own_;  // the registers of a store: "y0_own"
  std::map<std::string, Stored> stored_;             // by the array as it is written in texts
  std::map<std::string, Load> loads_;                // early ones, by array, index and loop
  std::map<std::string, std::string> local_loads_;   // names of those inside of one work
  std::vector<std::string> load_order_;
  std::set<std::string> packed_;
  std::set<std::string> defined_;  // variables that all texts behind can use
  size_t depth_ = 1;
  int folds_ = 0, names_ = 0;
  int64_t shared_bytes_ = 0;
};

}  // namespace fk
