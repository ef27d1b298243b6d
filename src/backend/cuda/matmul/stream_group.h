// Several products of few rows in one launch: each has its own matrix, result and activation. What comes before them
// (a norm, the mixtures of shifted tokens) can be computed by every block for itself, which saves a launch.
#pragma once

#include <array>
#include <string_view>
#include <variant>

#include "core/tensor.h"
#include "ops/forward_context.h"

namespace fk::cuda {

// Of the sums with their bias, rounded to the dtype first, as a kernel of its own would read them. Gated ones take gate
// rows, then up rows, and give half as many columns.
enum class GroupActivation : uint8_t { kNone, kTanh, kSigmoid, kRelu2, kSiluAndMul, kGeluTanhAndMul };

struct GroupedProduct {
  View weight;  // [features, length]
  View out;     // [rows, features]; also f32, without an activation, except with HeadNormRows and ShiftedRows
  GroupActivation activation = GroupActivation::kNone;
  OptView bias = {};
  OptView x = {};  // [rows, length], where the group has no prologue
  // [length], with ShiftedRows: the weight of this product's mixture; with PostNormRows: of its norm, where it has
  // another than the group.
  OptView mixture = {};
};

inline constexpr int kMostGroupedProducts = 8;

struct GroupedProducts {
  std::array<GroupedProduct, kMostGroupedProducts> at;
  int count = 0;

  void add(const GroupedProduct& product) {
    FK_CHECK(count < kMostGroupedProducts, "a group has at most 8 products");
    at[static_cast<size_t>(count++)] = product;
  }
};

// A state that keeps the last token of each sequence, and the batch it is used by.
struct LastTokens {
  View state;  // [slots, length]
  const AttentionMetadata* batch = nullptr;
};

// Prologues: what the products multiply. sum_out is x + residual; the results of a group must not be its inputs.
struct RmsNormRows {
  View x;
  OptView residual = {};
  View weight;
  double weight_offset = 0;  // added to the weight: 1 for Gemma's
  double eps = 0;
  OptView sum_out = {};
  OptView normed_out = {};  // the rows that are multiplied, for a later launch
};
// The end of an RMSNorm of heads: x divided by the root of the mean of squares of its head, which is given in parts.
struct HeadNormRows {
  View x;        // f32 [rows, heads * width]
  View squares;  // f32 [rows, heads, parts]
  double eps = 0;
};
// LayerNorm, then for each product its mixture of a token and the one before it. The normed tokens go to `now`, from
// where a later launch must store them (`store`), since other blocks still read the state.
struct ShiftedRows {
  View x;
  OptView residual = {};
  OptView pre_weight = {}, pre_bias = {};  // of a norm of x before that; sum_out is then its result
  View weight;
  OptView bias = {};
  double eps = 0;
  OptView sum_out = {};
  LastTokens before = {};
  View now = {};
};
// RMSNorm of x, added to the residual; RMSNorm of that sum, with a weight of its own for each product. The sum with a
// further weight goes to `second_out`, for a later launch.
struct PostNormRows {
  View x;
  View post_weight;
  OptView residual = {};
  View weight;
  double eps = 0;
  OptView sum_out = {};
  OptView second_weight = {}, second_out = {};
};
using RowPrologue = std::variant<std::monostate, RmsNormRows, HeadNormRows, ShiftedRows, PostNormRows>;

struct StreamGroup {
  GroupedProducts products;
  RowPrologue prologue = {};
  // Rows that become the last tokens of their sequences, besides the products.
  OptView stored = {};
  LastTokens store = {};
  OptView cleared = {};  // i64 [words]: set to zero, for launches after this one
};

// Why such a group is not supported; empty if it is. Outputs may be null views of the right shape.
std::string_view stream_group_refusal(const StreamGroup& group);
void stream_group(const StreamGroup& group, void* stream);

// The ways to split it, of which stream_group uses the fastest; for tests.
int stream_group_cuts(const StreamGroup& group);
void stream_group_with_cut(const StreamGroup& group, int cut, void* stream);

}  // namespace fk::cuda
