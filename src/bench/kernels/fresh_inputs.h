// FreshInputs: inputs that no call has seen before, of every kind the judge has too, at the price of a copy.
//
// Drawing every element anew would take longer than most kernels, so sets are drawn, one for each kind of numbers, and
// a call gets its tensors put together from pieces of one of them (core/pieces.h). Which one, and by what its numbers
// are multiplied, is drawn for every call: about half of them have numbers as the contract draws them, but for a
// factor, and a kernel that takes their range, their mean square or the place of the largest for known is wrong in all
// others. Where a scenario knows the values of a real run, half the calls have them, unchanged but in an order that no
// run had. What describes the batch (positions, lengths, tables) is that of the set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "candidate/runner/call_memory.h"
#include "core/pieces.h"
#include "core/rng.h"
#include "validate/input_families.h"
#include "validate/input_maker.h"

namespace fk {

class FreshInputs {
 public:
  // `root` is asked again later.
  FreshInputs(const Node& root, const InputMaker& maker, const Workload& workload, uint64_t seed);

  // The shapes of every call; their content is nobody's.
  const CallData& base() const { return shapes_; }
  // What the slot's tensors are put together from. Small ones have more elements than a call takes.
  const CallData& base(int slot) const { return *sets_[slots_[static_cast<size_t>(slot)].set].data; }
  // Chooses other inputs for a slot. Not to be timed: of the kinds that a right kernel may be faster on, too.
  void next(int slot, bool timed = true);
  // The inputs of the first slot.
  void repeat(int slot);
  // What a tensor of the slot is put together from, by its number: arguments, then states. None: as in
  // base(slot).
  std::optional<CallMemory::MadeFrom> pieces(int slot, size_t tensor) const;
  // The inputs themselves, put together when they are first asked for: a GPU has its own way to them.
  const CallData& current(int slot);
  // In words, for messages: "standard", "shifted +5", "recorded".
  std::string_view kind(int slot) const { return sets_[slots_[static_cast<size_t>(slot)].set].name; }

 private:
  struct Set {
    std::string_view name;
    const InputFamily* family = nullptr;  // to be applied to the standard set, when it is first needed
    std::unique_ptr<CallData> data;       // at an address that stays
  };
  // How the numbers of a set are multiplied.
  enum class Factors : uint8_t { kNone, kOneEach, kOneAPiece, kTiny };
  struct Slot {
    uint64_t key = 0;
    size_t set = 0;
    Factors factors = Factors::kNone;
    bool made = false;
    CallData data;
  };
  struct Kind {
    size_t set;
    Factors factors;
  };
  // How a tensor changes from call to call.
  struct Change {
    bool renewed = false;
    bool scaled = false;
    int most_exponent = 0;
  };
  void add_sets(const InputMaker& maker, uint64_t seed);
  std::unique_ptr<CallData> made_larger(CallData data, uint64_t seed) const;
  std::unique_ptr<CallData> of_family(const InputFamily& family) const;
  const View& tensor_of(const CallData& data, size_t tensor) const;
  uint64_t below(uint64_t n) { return random_.below(draws_++, n); }

  const Node& root_;
  const Workload workload_;
  const uint64_t seed_;
  const Inputs specs_;
  Stream random_;
  uint64_t draws_ = 0;
  CallData shapes_;
  std::vector<Change> changes_;  // by argument, then by state of the context
  std::vector<Set> sets_;        // standard first
  size_t recorded_ = 0;          // where there is one: its set
  std::vector<Kind> others_;     // besides standard numbers, and recorded ones
  std::vector<Kind> untimed_;    // likewise, for calls that do not count
  std::vector<Slot> slots_;
};

}  // namespace fk
