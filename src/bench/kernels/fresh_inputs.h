// FreshInputs: new inputs for every timed call, of the judge's input families, as fast as a copy.
//
// Generating every element again would take longer than most kernels. So one set is generated for each family, and the
// tensors of a call are built from pieces of one of them (core/pieces.h). The set and a factor are chosen at random for
// every call. About half of the calls have numbers as the contract generates them, times a factor; a kernel that relies
// on their range, their mean square or the position of the maximum is wrong in all others. If a scenario has the values
// of a real run, half of the calls use them, in another order. The description of the batch (positions, lengths,
// tables) is that of the set. The routing of tokens to experts has the set's loads, but tokens and experts have another
// order in every call: an operator that only sorts it would otherwise have the same answer each time. A GPU gets the
// set's routing; no operator with one has a kernel there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/pieces.h"
#include "core/rng.h"
#include "sandbox/call_memory.h"
#include "validate/input_families.h"
#include "validate/input_maker.h"

namespace fk {

class FreshInputs {
 public:
  // `root` is used again later.
  // How the numbers of a set are multiplied.
  enum class Factors : uint8_t { kNone, kOneEach, kOneAPiece, kTiny };

  FreshInputs(const Node& root, const InputMaker& maker, const Workload& workload, uint64_t seed);

  // The shapes of every call; the content is not used.
  const CallData& base() const { return shapes_; }
  // The set from which the slot's tensors are built. Small tensors have more elements there than in a call.
  const CallData& base(int slot) const { return *sets_[choice(slot).set].data; }
  // Chooses other inputs for a slot. Untimed calls get families on which a correct kernel may be faster.
  void next(int slot, bool timed = true);
  // What a slot's inputs are built from: the same choice gives the same inputs, in any slot.
  struct Choice {
    uint64_t key = 0;
    size_t set = 0;
    Factors factors = Factors::kNone;
  };
  const Choice& choice(int slot) const { return slots_[static_cast<size_t>(slot)].choice; }
  void repeat(int slot, const Choice& choice);
  // How a tensor of the slot is built, by its index: arguments, then the KV cache. None: as in base(slot).
  std::optional<CallMemory::MadeFrom> pieces(int slot, size_t tensor) const;
  // The inputs themselves, built on first use: a GPU builds them itself.
  const CallData& current(int slot);
  // As text, for messages: "standard", "shifted +5", "recorded".
  std::string_view kind(int slot) const { return sets_[choice(slot).set].name; }

 private:
  struct Set {
    std::string_view name;
    const InputFamily* family = nullptr;  // applied to the standard set on first use
    std::unique_ptr<CallData> data;       // at a fixed address
  };
  struct Slot {
    Choice choice;
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
  size_t recorded_ = 0;          // index of its set, if there is one
  std::vector<Kind> others_;     // kinds besides standard and recorded numbers
  std::vector<Kind> untimed_;    // the same for untimed calls
  std::vector<Slot> slots_;
};

}  // namespace fk
