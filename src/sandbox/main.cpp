// fastkernels-runner: runs one operator in a sandboxed process. Started by the judge with a channel as descriptor 3 and
// a pipe for its end as descriptor 4; not meant to be started by hand.
//
// Three processes: this one enters the namespaces; its child is the first process of the pid namespace, which waits and
// reports how the worker ended (the kernel then kills everything left in the namespace); its grandchild is the worker.
#include <alloca.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "candidate/walls.h"
#include "sandbox/address_layout.h"
#include "sandbox/message.h"
#include "sandbox/worker.h"

namespace {

constexpr int kChannel = 3;
constexpr int kStatusPipe = 4;

// Waits for the worker and reports how it ended: the wait status, then its peak memory in KiB.
int watch_over(pid_t worker) {
  close(kChannel);
  int status = 0;
  rusage usage{};
  for (;;) {
    pid_t ended = wait4(-1, &status, 0, &usage);
    if (ended == worker || ended < 0) break;
  }
  long report[2] = {status, usage.ru_maxrss};
  return write(kStatusPipe, report, sizeof report) == sizeof report ? 0 : 1;
}

// Serves requests with a stack that begins where the layout says.
[[gnu::noinline]] int serve_in(const fk::AddressLayout& layout, const fk::Message& open, const fk::Json& protections) {
  constexpr size_t kAlignment = 16;
  layout.shift_memory();
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  size_t gap = (here - layout.stack_place()) % fk::AddressLayout::kStackPeriod / kAlignment * kAlignment;
  // Volatile, so that the compiler cannot leave it out.
  auto* volatile skipped = static_cast<char*>(alloca(gap + kAlignment));
  *skipped = 0;
  return fk::serve_requests(kChannel, open.body, {{"nonce", open.body.at("nonce")}, {"protections", protections}});
}

}  // namespace

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int type = 0;
  socklen_t size = sizeof type;
  fk::Message open;
  if (getsockopt(kChannel, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      fk::receive_message(kChannel, -1, open) != fk::Received::kMessage) {
    fputs("fastkernels-runner is started by fastkernels, which talks to it over a socket.\n", stderr);
    return 2;
  }
  std::vector<fk::Protection> around = fk::enter_namespaces(fk::path_from_json(open.body.at("private_tmp")),
                                                            static_cast<fk::Walls>(open.body.at("walls").get<int>()));
  fk::Json list = fk::Json::array();
  for (const fk::Protection& p : around) list.push_back({p.name, p.on, p.why});

  pid_t first = fork();
  if (first == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t worker = fork();
    if (worker == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(kStatusPipe);
      setpgid(0, 0);  // the judge waits for this group
      int code = 1;
      try {
        code = serve_in(fk::AddressLayout(open.body.at("layout").get<uint64_t>()), open, list);
      } catch (const std::exception&) {
      }
      _exit(code);
    }
    _exit(watch_over(worker));
  }
  close(kChannel);
  close(kStatusPipe);
  int status = 0;
  waitpid(first, &status, 0);
  return 0;
}
