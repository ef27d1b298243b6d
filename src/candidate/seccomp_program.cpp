#include "candidate/seccomp_program.h"

#include <cerrno>

namespace fk {
namespace {

// Indexes of the filter's scratch memory.
enum Place : uint32_t { kStartLow, kStartHigh, kEndLow, kEndHigh };

// No process has memory from 2^56 on. On 64-bit ARM the kernel ignores the top byte of an address, so a filter that
// compares it could be tricked with another address.
constexpr uint32_t kHighBits = 0x00FFFFFF;

sock_filter keep(Place place) { return BPF_STMT(BPF_ST, place); }
sock_filter take(Place place) { return BPF_STMT(BPF_LD | BPF_MEM, place); }
sock_filter take_aside(Place place) { return BPF_STMT(BPF_LDX | BPF_MEM, place); }
sock_filter skip(uint32_t instructions) { return BPF_STMT(BPF_JMP | BPF_JA | BPF_K, instructions); }
sock_filter if_equal(uint32_t value, uint8_t yes, uint8_t no) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}
sock_filter if_greater(uint32_t value, uint8_t yes, uint8_t no) {
  return BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, value, yes, no);
}
sock_filter if_at_least(uint32_t value, uint8_t yes, uint8_t no) {
  return BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, yes, no);
}

}  // namespace

void SeccompProgram::answer_if_touched(int address, int length, const std::vector<AddressRange>& ranges,
                                       uint32_t action) {
  keep_addresses(address, length);
  for (const AddressRange& range : ranges) answer_if_in(range, action);
}

void SeccompProgram::ask_if_touched(int address, int length) {
  keep_addresses(address, length);
  asked_.push_back(code_.size());
  add(skip(0));
}

void SeccompProgram::answer_touched(const std::vector<AddressRange>& ranges, uint32_t touched, uint32_t otherwise) {
  // This jump is never executed, but for the kernel's check only a jump ends a path: otherwise the code before it would
  // seem to continue here without stored addresses.
  size_t around = code_.size();
  add(skip(0));
  for (size_t jump : asked_) code_[jump].k = static_cast<uint32_t>(code_.size() - jump - 1);
  for (const AddressRange& range : ranges) answer_if_in(range, touched);
  answer(otherwise);
  code_[around].k = static_cast<uint32_t>(code_.size() - around - 1);
  answer(otherwise);
}

void SeccompProgram::keep_addresses(int address, int length) {
  load(low_half(address));
  add(keep(kStartLow));
  load(high_half(address));
  mask(kHighBits);
  add(keep(kStartHigh));
  // Longer than the whole address space: the end would overflow. The kernel refuses that too.
  load(high_half(length));
  add(if_greater(kHighBits, 0, 1));
  answer(SECCOMP_RET_ERRNO | EINVAL);
  // A length of zero counts as one: mremap then maps the page a second time.
  add(if_equal(0, 0, 4));
  load(low_half(length));
  add(if_equal(0, 0, 2));
  add(BPF_STMT(BPF_LD | BPF_IMM, 1));
  add(skip(1));
  load(low_half(length));
  // The end, as a sum of two halves: the low half has a carry if it is less than its first operand.
  add(take_aside(kStartLow));
  add(BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0));
  add(keep(kEndLow));
  add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_X, 0, 0, 2));
  load(high_half(length));
  add(skip(2));
  load(high_half(length));
  add(BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1));
  add(take_aside(kStartHigh));
  add(BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0));
  add(keep(kEndHigh));
}

// Whether start < range.end and end > range.begin, each compared in halves. Ranges are whole pages and the kernel
// accepts only whole pages, so the length need not be rounded up.
void SeccompProgram::answer_if_in(const AddressRange& range, uint32_t action) {
  auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  add(take(kStartHigh));
  add(if_greater(high(range.end), 9, 0));
  add(if_equal(high(range.end), 0, 2));
  add(take(kStartLow));
  add(if_at_least(low(range.end), 6, 0));
  add(take(kEndHigh));
  add(if_greater(high(range.begin), 3, 0));
  add(if_equal(high(range.begin), 0, 3));
  add(take(kEndLow));
  add(if_greater(low(range.begin), 0, 1));
  answer(action);
}

}  // namespace fk
