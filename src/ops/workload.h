// Workload: the sizes of an operator's inputs that vary from call to call, and how its tensors are filled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "ops/routing.h"
#include "ops/state.h"

namespace fk {

struct Sequence {
  int64_t query_len = 1;    // new tokens
  int64_t context_len = 0;  // tokens that earlier calls have put into the states

  friend bool operator==(const Sequence&, const Sequence&) = default;
};

struct Workload {
  std::vector<Sequence> sequences = {{1, 0}};  // those with one new token first
  bool optional_inputs = false;                // give the optional inputs too
  DType dtype = DType::kBF16;                  // of activations
  int64_t width = 0;                           // last dimension or heads, where the constructor does not fix them
  int64_t kv_heads = 0;                        // of keys passed with queries, likewise
  int64_t picks = 0;                           // rows that an operator selects from its input; 0: half of them
  int64_t blocks = 0;                          // minimum size of the per-token states; 0: what the sequences need
  int64_t page_size = kDefaultPageSize;        // tokens a block holds; a power of two

  int64_t num_tokens() const {
    int64_t n = 0;
    for (const Sequence& s : sequences) n += s.query_len;
    return n;
  }
  int64_t num_sequences() const { return static_cast<int64_t>(sequences.size()); }
  friend bool operator==(const Workload&, const Workload&) = default;

  static Workload tokens(int64_t n, bool optional_inputs = false) {
    return {.sequences = {{n, 0}}, .optional_inputs = optional_inputs};
  }
  // One workload for `times` such calls together, each with its own inputs, but all with the same weights.
  Workload repeated(int64_t times) const;

  // The same with states in pages of this many tokens.
  Workload with_pages_of(int64_t tokens) const {
    Workload same = *this;
    same.page_size = tokens;
    return same;
  }

  static Workload rows(int64_t n, int64_t width) { return {.sequences = {{n, 0}}, .width = width}; }
  static Workload batch(std::vector<Sequence> sequences, bool optional_inputs = false) {
    return {.sequences = std::move(sequences), .optional_inputs = optional_inputs};
  }
};

// How a tensor is filled. Valid by construction: indices in range, tables without collisions, offsets that rise.
struct Generator {
  enum class Kind : uint8_t {
    kNormal,         // mean a, standard deviation b; where c is not 0, rounded to multiples of c
    kUniform,        // [a, b)
    kUniformOr,      // one in four is c, the others as kUniform
    kIntegers,       // a .. b-1; where c is not 0, as many of every order of magnitude
    kConstant,       // a
    kPositions,      // the position of each token in its sequence
    kLogitsIndices,  // the last token of each sequence
    kCuSeqlensQ,
    kCuSeqlensK,
    kSeqLens,
    kBlockTable,
    kSlotMapping,  // as in AttentionMetadata, over all sequences
    kStateSlots,   // as in SequenceGroup, over all sequences
    // Routing of the tokens to a experts, b for each, with the skew c: see make_routing() in ops/routing.h. Arguments
    // of one call describe the same routing.
    kTopkIds,
    kSortedIds,
    kExpertOffsets,
  };
  Kind kind = Kind::kNormal;
  double a = 0;
  double b = 1;
  double c = 0;
  // Of kNormal: half of the rounded numbers are one to three neighbours of the tensor's dtype above their multiple.
  bool with_neighbours = false;
  // The contract gives a meaning to values that these numbers do not have: a negative slot, an id outside the table,
  // minus infinity. The judge has calls with some of them (input_families.h).
  bool may_be_special = false;

  friend bool operator==(const Generator&, const Generator&) = default;
  // Filled from the sequences of the workload as a whole, not element by element from a random stream.
  bool is_metadata() const { return kind >= Kind::kPositions; }

  bool is_routing() const { return kind >= Kind::kTopkIds; }

  static Generator normal(double mean = 0, double deviation = 1) { return {Kind::kNormal, mean, deviation}; }
  // The position and the value of the maximum cannot be predicted, and often it occurs twice.
  static Generator normal_in_steps(double mean, double deviation, double step) {
    return {Kind::kNormal, mean, deviation, step};
  }
  // The same for kernels that only compare: who does not look at the lowest bits takes different values for equal ones.
  static Generator normal_near_steps(double mean, double deviation, double step) {
    return {Kind::kNormal, mean, deviation, step, true};
  }
  static Generator uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  // For parameters whose special value switches something off.
  static Generator uniform_or(double low, double high, double special) {
    return {Kind::kUniformOr, low, high, special};
  }
  static Generator integers(int64_t begin, int64_t end) {
    return {Kind::kIntegers, static_cast<double>(begin), static_cast<double>(end)};
  }
  // For counts that may be anything: small ones, and every other order of magnitude.
  static Generator integers_of_all_sizes(int64_t begin, int64_t end) {
    return {Kind::kIntegers, static_cast<double>(begin), static_cast<double>(end), 1};
  }
  static Generator constant(double value) { return {Kind::kConstant, value, 0}; }
  static Generator metadata(Kind kind) { return {kind, 0, 0}; }
  Generator or_special() const {
    Generator g = *this;
    g.may_be_special = true;
    return g;
  }
  static Generator routing(Kind kind, int64_t experts, int64_t top_k) {
    return {kind, static_cast<double>(experts), static_cast<double>(top_k), kSkewed};
  }
};

struct InputSpec {
  TensorSpec spec;
  Generator generator;
};

// Inputs and states in the order forward takes them; an optional one that is not given stays empty.
using Inputs = std::vector<std::optional<InputSpec>>;

// 8-bit products have at most four times the speed of those in bf16 on the same CPU: SDOT has four times FMLA's, VNNI
// four times an FMA's, and twice that of VDPBF16PS; AMX twice.
inline constexpr double kInt8Speedup = 4;

// The minimum work of a call for any implementation: bytes that must be read and written once, operations by the unit
// that can do them fastest. It must never be too high: times below it are refused.
struct Cost {
  double read_bytes = 0;
  double written_bytes = 0;
  double matrix_flops = 0;
  double vector_flops = 0;
  // How many times as fast as in the call's dtype the matrix operations can be: kInt8Speedup where operands may be
  // rounded to 8 bits.
  double matrix_speedup = 1;

  double bytes() const { return read_bytes + written_bytes; }
};

// The expected number of different rows among `picks` random picks from `rows`: a row picked again need not be read
// again.
double distinct_rows(double rows, double picks);

// |x - ref| <= relative * |ref| + of_scale * max|ref| + negligible_error for every element.
struct Tolerance {
  double relative = 0;
  double of_scale = 0;
};

// The absolute error that is always allowed. In f64, f32 and bf16 it is the smallest normal number: hardware and fast
// kernels flush subnormal numbers to zero, and this does not change the output of a model. Subnormals of the narrow
// formats matter and are not flushed: there it is half a step, from rounding. If the tolerance is zero (copies), it is
// zero.
double negligible_error(const Tolerance& tolerance, DType dtype);

template <class T>
struct Case {
  std::string label;
  typename T::Init init;
  Workload workload;
};

// Blocks of the KV cache of a workload: what it needs when no two sequences share one, with one spare per sequence so
// that tables can be scattered, or more if the workload asks for more.
int64_t cache_blocks(const Workload& workload);
int64_t blocks_per_sequence(const Workload& workload);  // of the longest
// Slots of its per-sequence states: one for each sequence, and two unused ones.
int64_t state_slots(const Workload& workload);
inline StateRoom state_room(const Workload& workload) {
  return {cache_blocks(workload), workload.page_size, state_slots(workload)};
}

}  // namespace fk
