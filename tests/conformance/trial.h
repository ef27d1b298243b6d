// A trial: one case of an operator with its data, and the checks that every implementation must pass.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/materialize.h"
#include "ops/registry.h"
#include "tests/conformance/guarded_tensor.h"

namespace fk::conformance {

// Tensors of one case in one dtype, and the results of the oracles on the same numbers in f64.
struct Problem {
  const OperatorInfo* info = nullptr;
  std::string label;
  Fields init;        // of the dtype tested
  Workload workload;  // of the dtype tested
  Tolerance tolerance;
  std::unique_ptr<Node> oracles;  // in the dtype tested: knows parameters and outputs
  CallData data;

  std::vector<std::optional<Tensor>> expected;  // the whole reference call, states and outputs after it
  std::vector<Tensor> expected_states;          // of the context

  // True when some argument has rows that may be strided, so that this placement differs from the misaligned one.
  bool has_rows() const;
};

Problem make_problem(const OperatorInfo& info, const OperatorInfo::ErasedCase& which, DType dtype);

// The implementation under test. A test may plant errors by wrapping an honest one.
struct Subject {
  std::function<void(const Node::Lookup&)> bind;
  std::function<void(Context&, Args)> call;
  std::function<std::string(Args)> refusal = [](Args) { return std::string(); };  // why it refuses such calls
};
Subject subject_of(Node& node);

struct Verdict {
  std::string refusal;              // why the subject refuses such calls; then nothing was called
  std::vector<std::string> faults;  // empty: everything is right
};

// Calls three times with poisoned outputs and restored states, all memory fenced. After each call: outputs, states and
// KV cache near the reference; inputs, weights and fences untouched; the bits the same as after the first.
// All of it, scratch and metadata too, is on `device`, where the subject must run.
Verdict examine(const Problem& problem, const Subject& subject, Placement placement, ThreadPool& pool,
                Device device = kCpu);

// The result of a sweep over many cases.
struct Sweep {
  int examined = 0;
  std::map<std::string, int> refusals;  // how often, by reason

  void add(const Verdict& verdict);
  // Empty, or what is wrong with the whole sweep: refusing every case is an error.
  std::string fault() const;
};

// The same fields, with every constructor argument named "dtype" set.
Fields with_dtype(Fields init, DType dtype);

}  // namespace fk::conformance
