// Subject: the judge's interface to one operator that runs elsewhere (in a sandboxed process, or a fake in tests):
// weights and call data go in, written tensors or a failure come out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "candidate/verdict.h"
#include "core/memory.h"
#include "ops/materialize.h"

namespace fk {

// Whether the tensors of a call have the same addresses as in the call before: detects kernels that replay results by
// address.
enum class Placement : uint8_t { kSame, kNew };

struct CallOutcome {
  // After the call, in the order of forward: arguments that are states, and outputs; inputs stay empty, since the
  // caller has them.
  std::vector<std::optional<Tensor>> written;
  std::vector<Tensor> states;      // of the context, as collect_states lists them
  std::optional<Failure> failure;  // then nothing else counts
  int64_t ns = 0;                  // by our clock, including the exchange overhead
  std::optional<uint8_t> poison;   // the byte that outputs were filled with before the call
  // Where the call was made several times on the same data: those that did not write the same bits.
  std::vector<CallOutcome> differing = {};
};

class Subject {
 public:
  virtual ~Subject() = default;

  // Weights in the order of collect_params. Called again with other weights: derived data must be updated.
  virtual std::optional<Failure> bind(std::span<const Tensor> params) = 0;

  // Whether its refuse() rejects a call with such tensors; only shapes and dtypes matter.
  virtual std::optional<Failure> refusal(const CallData& shapes) {
    static_cast<void>(shapes);
    return std::nullopt;
  }

  // Runs forward once on `data` (whose weights are ignored: those bound count). Outputs hold poison before the call.
  virtual CallOutcome call(const CallData& data, Placement placement) = 0;

  // The output of the last call some time after it returned: distinguishes late writes from wrong results.
  virtual std::optional<CallOutcome> look_again() { return std::nullopt; }
};

}  // namespace fk
