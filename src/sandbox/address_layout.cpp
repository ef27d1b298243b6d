#include "sandbox/address_layout.h"

#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>

namespace fk {
namespace {

// Far from everything that Linux or a sanitizer places, with 47 or 48 bits of addresses. With fewer it is not free, and
// Linux chooses.
constexpr uintptr_t kTensors = uintptr_t{0x3000} << 32;
constexpr unsigned long kAsk = 0xFFFFFFFF;  // personality() then changes nothing

void* reserve(size_t bytes) {
  return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Linux maps a small library into a gap between those that are there, which no shift moves: on x86-64 the gap below
// vdso. So gaps are filled, page by page, until one is mapped beside a block that fits in none of them.
void fill_gaps() {
  constexpr size_t kBlock = size_t{256} << 20;
  constexpr int kMostPages = 1 << 16;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* block = reserve(kBlock);
  if (block == MAP_FAILED) return;
  const auto begin = reinterpret_cast<uintptr_t>(block);
  for (int i = 0; i < kMostPages; ++i) {
    void* filler = reserve(page);
    if (filler == MAP_FAILED) break;
    const auto at = reinterpret_cast<uintptr_t>(filler);
    if (at + page == begin || at == begin + kBlock) {
      munmap(filler, page);
      break;
    }
  }
  munmap(block, kBlock);
}

}  // namespace

bool FixedAddresses::possible() {
  FixedAddresses fixed;
  return (static_cast<unsigned long>(personality(kAsk)) & ADDR_NO_RANDOMIZE) != 0;
}

FixedAddresses::FixedAddresses() : before_(personality(kAsk)) {
  if (before_ >= 0) personality(static_cast<unsigned long>(before_) | ADDR_NO_RANDOMIZE);
}

FixedAddresses::~FixedAddresses() {
  if (before_ >= 0) personality(static_cast<unsigned long>(before_));
}

AddressLayout::AddressLayout(uint64_t number) : random_(number, "address layout") {
  constexpr size_t kShifts = 4096, kHeapShifts = 256, kPlaces = size_t{1} << 18;  // pages
  stack_place_ = random_.below(draws_++, kStackPeriod);
  shift_bytes_ = pages(kShifts);
  heap_shift_bytes_ = pages(kHeapShifts);
  tensors_at_ = kTensors + pages(kPlaces);
}

size_t AddressLayout::pages(size_t most) {
  return static_cast<size_t>(random_.below(draws_++, most)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void AddressLayout::shift_memory() const {
  sbrk(static_cast<intptr_t>(heap_shift_bytes_));
  fill_gaps();
  // In pieces, which merge: Linux 6.7 to 6.11 begin larger ones at a multiple of 2 MiB, which leaves another gap.
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t left = shift_bytes_; left > 0; left -= std::min(left, kPiece)) reserve(std::min(left, kPiece));
}

void* AddressLayout::next_tensors() {
  constexpr size_t kGaps = 512;  // pages, so that an address does not tell how many tensors were mapped before
  tensors_at_ += pages(kGaps);
  return reinterpret_cast<void*>(tensors_at_);
}

void AddressLayout::tensors_end_at(const void* end) {
  auto at = reinterpret_cast<uintptr_t>(end);
  if (at > tensors_at_ && at - tensors_at_ < kTensors) tensors_at_ = at;
}

}  // namespace fk
