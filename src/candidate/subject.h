// Subject: one operator that is called for the judge (in a sandboxed process; in tests by a fake): weights and call
// data go in, written tensors or a failure come out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "candidate/verdict.h"
#include "core/memory.h"
#include "ops/materialize.h"

namespace fk {

// Where the tensors of a call lie, compared with the call before: for probes of kernels that replay by address.
enum class Placement : uint8_t { kSame, kNew };

struct CallOutcome {
  // After the call, in the order of forward: arguments that are states, and outputs; inputs stay empty, they are the
  // caller's own.
  std::vector<std::optional<Tensor>> written;
  std::vector<Tensor> states;      // of the context, as collect_states lists them
  std::optional<Failure> failure;  // then nothing else counts
  int64_t ns = 0;                  // by our clock, the exchange included
  std::optional<uint8_t> poison;   // the byte that outputs were filled with before the call
  // Where the call was made several times on the same data: those that did not write the same bits.
  std::vector<CallOutcome> differing = {};
};

class Subject {
 public:
  virtual ~Subject() = default;

  // Weights as collect_params lists them. Called again with others: what was derived from the first must follow.
  virtual std::optional<Failure> bind(std::span<const Tensor> params) = 0;

  // Whether it says beforehand that it takes no call with tensors like these, whose content does not count.
  virtual std::optional<Failure> refusal(const CallData& shapes) {
    static_cast<void>(shapes);
    return std::nullopt;
  }

  // Runs forward once on `data` (whose weights are ignored: those bound count). Outputs hold poison before the call.
  virtual CallOutcome call(const CallData& data, Placement placement) = 0;

  // What the last call had written some time after it returned: to tell who is late from who is wrong.
  virtual std::optional<CallOutcome> look_again() { return std::nullopt; }
};

}  // namespace fk
