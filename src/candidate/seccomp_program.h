// SeccompProgram: builds a filter for system calls instruction by instruction.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace fk {

// Addresses from `begin` up to `end`, which is excluded.
struct AddressRange {
  uint64_t begin = 0, end = 0;
};

class SeccompProgram {
 public:
  void load(uint32_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void load_argument(int i) { load(low_half(i)); }  // its low 32 bits
  void load_high_argument(int i) { load(high_half(i)); }
  void mask(uint32_t bits) { add(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)); }
  void answer(uint32_t action) { add(BPF_STMT(BPF_RET | BPF_K, action)); }
  // Returns `action` if the loaded word is `value`.
  void answer_if(uint32_t value, uint32_t action) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(action);
  }
  void answer_unless(uint32_t value, uint32_t action) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    answer(action);
  }
  // The instructions that `then` adds run only if the loaded word is `value`. They must end with an answer or with
  // ask_if_touched().
  void where(uint32_t value, const std::function<void()>& then) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    size_t jump = code_.size();
    add(BPF_STMT(BPF_JMP | BPF_JA | BPF_K, 0));
    then();
    code_[jump].k = static_cast<uint32_t>(code_.size() - jump - 1);
  }

  // Returns `action` if the pages that start at one argument, with the length of another, overlap one of `ranges`;
  // otherwise continues.
  void answer_if_touched(int address_argument, int length_argument, const std::vector<AddressRange>& ranges,
                         uint32_t action);
  // The same as the last check of a system call: jumps to shared code, which answer_touched() adds at the end of the
  // program.
  void ask_if_touched(int address_argument, int length_argument);
  void answer_touched(const std::vector<AddressRange>& ranges, uint32_t touched, uint32_t otherwise);

  std::vector<sock_filter>& code() { return code_; }

 private:
  static constexpr uint32_t low_half(int argument) {
    return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8u * static_cast<uint32_t>(argument);
  }
  static constexpr uint32_t high_half(int argument) { return low_half(argument) + 4; }
  void add(sock_filter instruction) { code_.push_back(instruction); }
  void keep_addresses(int address_argument, int length_argument);
  void answer_if_in(const AddressRange& range, uint32_t action);

  std::vector<sock_filter> code_;
  std::vector<size_t> asked_;  // jumps to the code that answer_touched() adds
};

}  // namespace fk
