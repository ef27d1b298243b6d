// ExpertsCall: one product of rows with the matrices of their experts, as plain numbers and addresses for a kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace fk::cuda {

// What follows the product. In gated ones a row of W is the gate or the up projection of a feature:
enum class ExpertsEpilogue : uint8_t {
  kPlain,
  kSiluAndMul,  // all gate rows of an expert, then all up rows
  kSwigluOAI,   // gate and up rows alternate
};

constexpr bool is_gated(ExpertsEpilogue epilogue) {
  return epilogue == ExpertsEpilogue::kSiluAndMul || epilogue == ExpertsEpilogue::kSwigluOAI;
}

struct ExpertsCall {
  const void* x = nullptr;  // a row for each token, or for each pair of token and expert
  const void* weight = nullptr;
  const void* bias = nullptr;        // [experts, rows of a matrix], or null
  void* out = nullptr;               // a row for each pair
  const int32_t* sorted = nullptr;   // pairs by expert
  const int32_t* offsets = nullptr;  // where those of each expert begin; experts_wgmma takes null, too: one has all
  int64_t x_stride = 0;
  int64_t out_stride = 0;
  int experts = 0;
  int pairs = 0;
  int pairs_per_row = 1;  // of x
  int top_k = 1;
  int features = 0;  // columns of out
  int length = 0;    // columns of x and W
  ExpertsEpilogue epilogue = ExpertsEpilogue::kPlain;
  float alpha = 0, limit = 0;  // of kSwigluOAI
  DType dtype = DType::kBF16;  // of x, W, bias and out

  int weight_rows() const { return is_gated(epilogue) ? 2 * features : features; }  // of an expert
  int tokens() const { return pairs / top_k; }
};

// For kernels that read 16 bytes at a time: bf16 or f16, and rows of x and W start on 16 bytes.
std::string_view experts_packs_refusal(const ExpertsCall& call);

}  // namespace fk::cuda
