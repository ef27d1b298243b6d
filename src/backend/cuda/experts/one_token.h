// The experts of a single token in two launches: gate, up and activation; then down and the weighted sum. Each expert
// has one row, so there is nothing to sort. Both launches can make the router's choice themselves, and the second can
// multiply the second matrix of a feed-forward block beside the experts, too.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cuda/experts/routed_output.h"
#include "core/dtype.h"

namespace fk::cuda {

enum class ExpertGate : uint8_t {
  kSilu,
  kGeluTanh,
  kSwigluOAI,  // gate and up rows alternate; in the others all gate rows of an expert come first
};

struct OneTokenExperts {
  const void* x = nullptr;             // [hidden]
  const int32_t* ids = nullptr;        // [top_k], unless `routed`
  const float* weights = nullptr;      // [top_k], unless `routed`
  const void* gate_up = nullptr;       // [experts, 2 * features, hidden]
  const void* gate_up_bias = nullptr;  // [experts, 2 * features], or null
  const void* down = nullptr;          // [experts, hidden, features]
  const void* down_bias = nullptr;     // [experts, hidden], or null
  void* between = nullptr;             // [top_k, features]: the activated rows
  void* out = nullptr;                 // [hidden]
  int experts = 0;
  int top_k = 0;
  int hidden = 0;
  int features = 0;
  ExpertGate gate = ExpertGate::kSilu;
  float alpha = 0, limit = 0;  // of kSwigluOAI
  DType dtype = DType::kBF16;  // of x, matrices, biases, between and out

  // The experts are the top_k with the largest logits. Their weights are a softmax over these alone or over all
  // experts, each times the number of its expert.
  bool routed = false;
  const float* logits = nullptr;  // [experts]
  float logit_scale = 1;          // they are multiplied by
  bool softmax_of_all = false;
  const void* expert_scale = nullptr;  // [experts], or null: 1

  // With `routed` only: a product of its own beside the experts'. With a gate it is multiplied by the gate's sigmoid
  // and added to `out`.
  void* dense_between = nullptr;      // [dense_features]
  const void* dense_down = nullptr;   // [hidden, dense_features], or null
  void* dense_out = nullptr;          // [hidden]; not used with a gate
  const float* dense_gate = nullptr;  // one number, or null
  int dense_features = 0;

  // With sums, in place of x, logits and dense_gate: what routed_output gave. The first launch then multiplies the
  // first matrix of the block beside the experts, too.
  RoutedStream routed_stream = {};
  const void* dense_gate_up = nullptr;  // [2 * dense_features, hidden]: gate rows, then up rows
};

// Empty if it can be computed. Null pointers count as aligned.
std::string_view one_token_experts_refusal(const OneTokenExperts& call);
void run_one_token_experts(const OneTokenExperts& call, void* stream);

}  // namespace fk::cuda
