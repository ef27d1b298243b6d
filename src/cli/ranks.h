// The ranks of --tp N: processes that run one model together, each with its part of the weights.
//
// The first rank starts the others as processes of this program with the same command line; they share memory. Where
// mpirun has started N ranks already, they reach each other by MPI. Every rank runs the whole verb, in step with the
// others, and only the first prints and stores anything.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "core/communicator.h"
#include "core/json.h"
#include "core/shared_ranks.h"
#include "core/undo_at_end.h"

namespace fk {

void add_rank_options(FlagSet& flags, int64_t& tp);  // --tp

// Ranks that mpirun, or a launcher like it, has started; 0 where this process was not started by one.
int64_t launched_ranks();

class Ranks {
 public:
  // Starts or finds the other ranks, if tp is above one. Call it when everything that can be wrong with the command
  // line has been checked, so that a mistake is reported once. Threads are divided over the ranks of this machine, and
  // ranks other than the first become silent: `common` is changed.
  Ranks(int64_t tp, CommonOptions& common);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Communicator* communicator() const { return communicator_.get(); }  // nullptr: there is one rank
  // Of their hosts, where ranks compute on devices; there must be several.
  Communicator& host() const { return host_ != nullptr ? *host_ : *communicator_; }
  bool first() const { return communicator_ == nullptr || host().rank() == 0; }
  // On every rank, the texts of all ranks in rank order.
  std::vector<std::string> gather(const std::string& text);
  // Waits until the other ranks have ended. Throws Error with the message of one that failed.
  void finish();

 private:
  struct Process {
    pid_t id = -1;
    int errors = -1;  // its standard error, an unnamed file
    bool ended = false;
    UndoAtEnd at_exit;
  };

  void start_processes(int64_t tp, const CommonOptions& common);
  void start_process(int64_t rank, int64_t tp, const std::vector<std::string>& words);
  void watch();  // throws Error if a process has ended
  bool reap(Process& process, int64_t rank, bool wait);

  std::unique_ptr<SharedRanks> memory_;
  std::vector<std::unique_ptr<Process>> processes_;  // of ranks 1, 2, ...; on the first rank only
  std::unique_ptr<Communicator> host_;               // where ranks compute on devices
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace fk
