#include "models/lost_pages.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string_view>

namespace fk {
namespace {

// A signal handler may not lock: the table has a fixed size, and an entry is valid once `begin` is set, which is set
// last.
struct Place {
  std::atomic<const std::byte*> begin{nullptr};
  size_t size_bytes = 0;
  std::string path;
};

constexpr size_t kPlaces = 4096;

// Never destroyed: threads may still read when the program ends.
Place* places() {
  static auto* all = new Place[kPlaces];
  return all;
}
std::mutex& changing() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

void print(std::string_view text) { static_cast<void>(!write(STDERR_FILENO, text.data(), text.size())); }

void handle(int signal_number, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (size_t i = 0; i < kPlaces; ++i) {
    const Place& place = places()[i];
    const std::byte* begin = place.begin.load(std::memory_order_acquire);
    if (begin == nullptr || address < begin || address >= begin + place.size_bytes) continue;
    print("fastkernels: ");
    print(place.path);
    print(
        " can no longer be read as a whole: it was made shorter, or its disk failed, while it was in use; restore it "
        "and "
        "start again\n");
    _exit(1);
  }
  // Not in a watched file: restore the default handler, so that the fault is raised again and ends the program.
  signal(signal_number, SIG_DFL);
}

}  // namespace

void explain_lost_pages() {
  places();  // made now, since a handler may not allocate
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void watch_pages(const std::byte* begin, size_t size_bytes, const std::string& path) {
  std::lock_guard lock(changing());
  for (size_t i = 0; i < kPlaces; ++i) {
    Place& place = places()[i];
    if (place.begin.load() != nullptr) continue;
    place.size_bytes = size_bytes;
    place.path = path;
    place.begin.store(begin, std::memory_order_release);
    return;
  }
}

void forget_pages(const std::byte* begin) {
  std::lock_guard lock(changing());
  for (size_t i = 0; i < kPlaces; ++i)
    if (places()[i].begin.load() == begin) places()[i].begin.store(nullptr);
}

}  // namespace fk
