// The experts of a single token in two launches: gate, up and activation; then down and the weighted sum. Each expert
// has one row, so there is nothing to sort.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace fk::cuda {

enum class ExpertGate : uint8_t {
  kSilu,
  kGeluTanh,
  kSwigluOAI,  // gate and up rows alternate; in the others all gate rows of an expert come first
};

struct OneTokenExperts {
  const void* x = nullptr;             // [hidden]
  const int32_t* ids = nullptr;        // [top_k]
  const float* weights = nullptr;      // [top_k]
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
};

// Empty if it can be computed. Null pointers count as aligned.
std::string_view one_token_experts_refusal(const OneTokenExperts& call);
void run_one_token_experts(const OneTokenExperts& call, void* stream);

}  // namespace fk::cuda
