#include "core/shared_ranks.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "core/check.h"
#include "core/error.h"
#include "core/host_communicator.h"

namespace fk {
namespace {

constexpr size_t kSlotBytes = size_t{256} << 10;

// What a rank says it is doing; all must say the same.
struct Step {
  uint32_t kind = 0;
  uint32_t root = 0;
  uint64_t bytes = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

struct Slot {
  alignas(64) Step step;
  alignas(64) std::byte data[kSlotBytes];
};

struct Header {
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> generation;  // counts the waits that are over
  alignas(64) std::atomic<uint32_t> gone;        // ranks that have left
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

size_t memory_bytes(int64_t ranks) { return sizeof(Header) + static_cast<size_t>(ranks) * 2 * sizeof(Slot); }

uint32_t* futex_word(std::atomic<uint32_t>& word) { return reinterpret_cast<uint32_t*>(&word); }

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  constexpr timespec kLimit{0, 50'000'000};  // then the caller looks whether a rank is lost
  syscall(SYS_futex, futex_word(word), FUTEX_WAIT, value, &kLimit, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

class SharedMemoryRank final : public HostCommunicator {
 public:
  SharedMemoryRank(std::byte* memory, int64_t rank, int64_t size, std::function<void()> while_waiting)
      : header_(*reinterpret_cast<Header*>(memory)),
        slots_(reinterpret_cast<Slot*>(memory + sizeof(Header))),
        rank_(rank),
        size_(size),
        while_waiting_(std::move(while_waiting)) {}

  // The others see it at the latest when their sleep ends.
  ~SharedMemoryRank() override { header_.gone.fetch_add(1); }

  std::string_view name() const override { return "shared memory"; }
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  void barrier() override {
    exchange(
        {.kind = kBarrier}, [](std::byte*) {}, [](int64_t, const std::byte*) {});
  }

 protected:
  void gather_bytes(const std::byte* x, size_t bytes, std::byte* out) override {
    for (size_t at = 0; at < bytes; at += kSlotBytes) {
      size_t piece = std::min(kSlotBytes, bytes - at);
      exchange(
          {kGather, 0, bytes}, [&](std::byte* mine) { std::memcpy(mine, x + at, piece); },
          [&](int64_t from, const std::byte* slot) {
            std::memcpy(out + static_cast<size_t>(from) * bytes + at, slot, piece);
          });
    }
  }

  void exchange_bytes(const std::byte* x, size_t bytes, std::byte* out) override {
    const size_t ranks = static_cast<size_t>(size_), most = kSlotBytes / ranks / 64 * 64;
    for (size_t at = 0; at < bytes; at += most) {
      size_t piece = std::min(most, bytes - at);
      exchange(
          {kExchange, 0, bytes},
          [&](std::byte* mine) {
            for (size_t to = 0; to < ranks; ++to) std::memcpy(mine + to * most, x + to * bytes + at, piece);
          },
          [&](int64_t from, const std::byte* slot) {
            std::memcpy(out + static_cast<size_t>(from) * bytes + at, slot + static_cast<size_t>(rank_) * most, piece);
          });
    }
  }

  void broadcast_bytes(std::byte* x, size_t bytes, int64_t root) override {
    for (size_t at = 0; at < bytes; at += kSlotBytes) {
      size_t piece = std::min(kSlotBytes, bytes - at);
      exchange(
          {kBroadcast, static_cast<uint32_t>(root), bytes},
          [&](std::byte* mine) {
            if (rank_ == root) std::memcpy(mine, x + at, piece);
          },
          [&](int64_t from, const std::byte* slot) {
            if (from == root && rank_ != root) std::memcpy(x + at, slot, piece);
          });
    }
  }

 private:
  enum Kind : uint32_t { kBarrier, kGather, kExchange, kBroadcast };

  // Writes this rank's slot, waits for all, and reads every rank's slot in rank order.
  template <class Write, class Read>
  void exchange(const Step& step, Write&& write, Read&& read) {
    turn_ ^= 1;
    Slot& mine = slot(rank_);
    mine.step = step;
    write(mine.data);
    wait_for_all();
    for (int64_t r = 0; r < size_; ++r)
      if (!(slot(r).step == step))
        throw Error(
            "Rank {} and rank {} are at different steps of the model; start all ranks with the same command line.",
            rank_, r);
    for (int64_t r = 0; r < size_; ++r) read(r, slot(r).data);
  }

  Slot& slot(int64_t rank) { return slots_[2 * rank + turn_]; }

  void wait_for_all() {
    uint32_t generation = header_.generation.load(std::memory_order_acquire);
    if (header_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
      header_.arrived.store(0, std::memory_order_relaxed);
      header_.generation.fetch_add(1, std::memory_order_acq_rel);
      return wake_all(header_.generation);
    }
    // Ranks are in step most of the time, so a short wait is worth a core.
    constexpr int kSpins = 4000;
    for (int i = 0; i < kSpins; ++i) {
      if (header_.generation.load(std::memory_order_acquire) != generation) return;
#if defined(__aarch64__)
      asm volatile("yield");
#elif defined(__x86_64__)
      asm volatile("pause");
#endif
    }
    // So many sleeps the one who watches has to say why a rank was lost.
    const int kPatience = while_waiting_ ? 20 : 1;
    while (header_.generation.load(std::memory_order_acquire) == generation) {
      sleep_while(header_.generation, generation);
      // A rank that left before this wait was over will never come; one that left after it has counted itself first.
      bool lost = header_.gone.load() > 0;
      if (header_.generation.load(std::memory_order_acquire) != generation) return;
      if (while_waiting_) while_waiting_();
      if (lost && ++lost_for_ > kPatience)
        throw Error("A rank ended while rank {} waited for it; the message of that rank says why.", rank_);
    }
  }

  Header& header_;
  Slot* slots_;
  int64_t rank_, size_;
  std::function<void()> while_waiting_;
  int turn_ = 0;
  int lost_for_ = 0;
};

}  // namespace

SharedRanks::SharedRanks(int64_t size) {
  FK_CHECK(size >= 1 && size <= kMaxSharedRanks);
  file_ = memfd_create("fastkernels-ranks", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(memory_bytes(size))) != 0)
    throw Error("The system gave no memory for {} ranks to share ({}).", size, strerror(errno));
  map(size);
}

SharedRanks::SharedRanks(int file, int64_t size) {
  struct stat facts {};
  if (size < 1 || size > kMaxSharedRanks || fstat(file, &facts) != 0 ||
      facts.st_size != static_cast<off_t>(memory_bytes(size)))
    throw Error("The memory that {} ranks share was not inherited; start ranks with --tp, not by hand.", size);
  file_ = file;
  map(size);
}

void SharedRanks::map(int64_t size) {
  size_ = size;
  void* at = mmap(nullptr, memory_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (at == MAP_FAILED) throw Error("The memory that {} ranks share cannot be mapped ({}).", size, strerror(errno));
  memory_ = static_cast<std::byte*>(at);  // new memory is zero, which is where all counters start
}

SharedRanks::~SharedRanks() {
  if (memory_ != nullptr) munmap(memory_, memory_bytes(size_));
  if (file_ >= 0) close(file_);
}

std::unique_ptr<Communicator> SharedRanks::join(int64_t rank, std::function<void()> while_waiting) {
  FK_CHECK(rank >= 0 && rank < size_);
  return std::make_unique<SharedMemoryRank>(memory_, rank, size_, std::move(while_waiting));
}

}  // namespace fk
