// The experts of Qwen2 MoE and Qwen3-Next for one token, in three launches: the router's logits with the shared
// expert's gate, up and own gate; the choice of experts with their gate and up; down of all of them. A layer puts its
// norm before the products of the first. Or two launches, where the product before the block adds the router's terms
// (experts/routed_output.h).
#pragma once

#include <string_view>

#include "backend/cuda/experts/one_token.h"
#include "backend/cuda/matmul/stream_group.h"
#include "ops/l2/sparse_moe_block.h"

namespace fk::cuda {

class OneTokenMoe {
 public:
  // What lies between the launches.
  struct Rows {
    View logits;   // f32 [1, experts]
    View gate;     // f32 [1, 1]: of the shared expert
    View wide;     // [1, features of the shared expert]
    View between;  // [experts of the token, their features]
    // In place of logits and gate, where the product before the block adds to them; sums must be zero before it.
    View sums;     // i64
    View squares;  // f32
  };

  explicit OneTokenMoe(const SparseMoeBlockInit& init) : init_(init) {}

  // Why it does not support such a block, or such views; empty if it does. Without weights the addresses do not count.
  std::string_view refuse() const;
  std::string_view refuse(const View& x, const View& out) const;

  // Weights of the block are those whose names begin with `prefix`.
  void bind(const Operator::PartWeight& weight, std::string_view prefix);

  Rows make_rows(Arena& arena) const;
  // Views without memory, for refusals.
  Rows nothing(Device device) const;
  // The products of the first launch, whose rows are x or those of the group's prologue.
  void add_products(StreamGroup& group, const Rows& rows, const OptView& x) const;
  // The other two. x [1, D]: what the products had.
  void run_experts(const View& x, const Rows& rows, const View& out, void* stream) const;

  // `product`, without what comes after it, with the residual stream before the block, its norm and the router's terms.
  RoutedOutput routing(RoutedOutput product, const RoutedStream& normed, const Rows& rows) const;
  void run_experts(const RoutedStream& routed, const Rows& rows, const View& out, void* stream) const;

 private:
  OneTokenExperts call(const View& x, const Rows& rows, const View& out) const;

  const SparseMoeBlockInit init_;
  OptView router_, gate_up_, down_, shared_gate_up_, shared_down_, shared_gate_;
};

}  // namespace fk::cuda
