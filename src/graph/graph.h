// Graph: what one pass of a model computes, as values and the calls between them.
//
// A body is the inside of one composition: a function from its inputs (arguments, weights, states, metadata of the
// batch) to its outputs (results and updated states). No value is ever changed: a call that writes a state, or one of
// its arguments, in place yields a new value of the same memory. Bodies that are equal but for the weights and states
// they are called with, as those of most layers are, are stored once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "graph/symbolic_size.h"
#include "ops/fields.h"

namespace fk {

// Which sequences a batch has. The calls of a pass depend on that, and on nothing else of the batch but its sizes.
enum class GraphPhase : uint8_t {
  kPrefill,
  kDecode,  // one new token of each sequence
  kMixed,   // both: sequences that decode first
  kEncode,  // of encoders, which have no states
};
std::string_view phase_name(GraphPhase phase);      // "prefill"
GraphPhase phase_from_name(std::string_view name);  // throws UsageError with the names

using ValueId = int32_t;  // index into GraphBody::values

enum class ValueKind : uint8_t {
  kArgument,   // of the body's composition
  kParameter,  // a weight
  kState,      // kept between passes
  kBatch,      // metadata of the batch: "batch.slot_mapping"
  kResult,     // of a node
};

std::string_view value_kind_name(ValueKind kind);  // "parameter"
std::optional<ValueKind> value_kind_named(std::string_view name);

struct GraphValue {
  ValueKind kind = ValueKind::kResult;
  std::string name;  // of an argument, or relative to the body's operator; empty for results
  DType dtype = DType::kF32;
  std::vector<SymbolicSize> shape;

  friend bool operator==(const GraphValue&, const GraphValue&) = default;
};

// A value and what it is for the node or body that lists it: "x", "weight", "attn.key_cache".
struct GraphOperand {
  std::string name;
  ValueId value = 0;

  friend bool operator==(const GraphOperand&, const GraphOperand&) = default;
};

struct GraphNode {
  enum class Kind : uint8_t {
    kCall,     // of an operator
    kSlice,    // a box of its input: `starts` in each dimension, as many elements as its output has
    kReshape,  // the same elements in the same order, in another shape
    kConcat,   // its inputs one after the other, along the first dimension
  };
  static constexpr int kNoBody = -1;

  Kind kind = Kind::kCall;
  std::string op = {};    // the operator that a call calls
  std::string path = {};  // of a call: its place in the tree, relative to the body's operator
  int level = 0;          // of the operator
  Fields init = {};       // its constructor arguments
  int body = kNoBody;     // of a composition: index into Graph::bodies
  std::vector<SymbolicSize> starts = {};
  // Of a call: arguments, then weights, states and metadata; those of a composition in the order of its body's inputs.
  std::vector<GraphOperand> inputs = {};
  // Updated arguments and states keep their names.
  std::vector<GraphOperand> outputs = {};

  bool is_call() const { return kind == Kind::kCall; }
  std::string_view name() const;                               // the operator, "slice", "reshape" or "concat"
  const GraphOperand* input(std::string_view operand) const;   // nullptr where there is none
  const GraphOperand* output(std::string_view operand) const;  // likewise
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

struct GraphBody {
  std::string op;
  int level = 0;
  Fields init;
  int64_t repeats = 1;  // how often a pass runs it
  std::vector<GraphValue> values;
  std::vector<ValueId> inputs;        // values that no node makes, in the order of a call's inputs
  std::vector<GraphNode> nodes;       // each uses only inputs and results of earlier ones
  std::vector<GraphOperand> outputs;  // in the order of a call's outputs

  friend bool operator==(const GraphBody&, const GraphBody&) = default;
};

struct Graph {
  std::string model;
  GraphPhase phase = GraphPhase::kPrefill;
  std::vector<GraphBody> bodies;  // each calls only earlier ones; the last is the model's

  const GraphBody& root() const { return bodies.back(); }
  friend bool operator==(const Graph&, const Graph&) = default;
};

// Throws Error with the first violation: a value that no node and no input defines or that two define, one that is used
// before it is defined, a body that calls a later one, a call that does not fit its body, a wrong repeat count.
void check_graph(const Graph& graph);

// How often a pass runs each body.
std::vector<int64_t> count_repeats(const Graph& graph);
// Calls of L1 operators, and of compositions without a body, in a whole pass.
int64_t count_kernel_calls(const Graph& graph);

}  // namespace fk
