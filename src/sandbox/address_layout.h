// Where stack, libraries, heap and tensors of a runner lie. Their positions change the time of a kernel by 1 to 2 % for
// as long as its process lives, and Linux chooses other ones for every process. So its choice is switched off for
// runners on a CPU, and a number that is drawn for every launch decides, the same for all processes of the launch. The
// program itself, with the code of the baselines, and the C library are at the same addresses in all launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rng.h"

namespace fk {

// While it lives, this thread starts processes whose addresses Linux does not randomise. Without effect where a
// container's profile forbids it.
class FixedAddresses {
 public:
  static bool possible();
  FixedAddresses();
  ~FixedAddresses();
  FixedAddresses(const FixedAddresses&) = delete;
  FixedAddresses& operator=(const FixedAddresses&) = delete;

 private:
  int before_;
};

class AddressLayout {
 public:
  explicit AddressLayout(uint64_t number);

  // Where the stack begins, in bytes modulo 64 KiB.
  static constexpr size_t kStackPeriod = 64 << 10;
  size_t stack_place() const { return stack_place_; }
  // Moves the heap, and what is mapped from now on without a wanted address: libraries, stacks of threads.
  void shift_memory() const;
  // The address for the next tensors, behind the last ones. It does not depend on libraries, which differ between the
  // sides.
  void* next_tensors();
  void tensors_end_at(const void* end);

 private:
  size_t pages(size_t most);  // a random number below `most`, as bytes

  Stream random_;
  uint64_t draws_ = 0;
  size_t stack_place_, shift_bytes_, heap_shift_bytes_;
  uintptr_t tensors_at_;
};

}  // namespace fk
