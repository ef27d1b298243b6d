// The product before a block of experts for one token, with the residual stream and the terms of the router's logits: a
// logit is a sum over the elements of the stream, each times its weight in the norm and in the router, and divided by
// the root of the mean square, which is a factor of the whole sum. So blocks add the terms of the elements they have
// just computed, and the experts can be chosen in the next launch.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cuda/device/term_scale.h"
#include "core/dtype.h"

namespace fk::cuda {

// The stream before a block of experts and the sums of logits, of which the norm is still to be applied.
struct RoutedStream {
  void* stream = nullptr;      // [hidden]
  const void* norm = nullptr;  // [hidden]: its weight
  float norm_offset = 0;       // added to the weight
  float eps = 0;               // of the norm
  int hidden = 0;
  // Of logits, and of the one logit of the shared expert's gate after them; to be divided by the root of the mean
  // square. Zero before routed_output.
  unsigned long long* sums = nullptr;
  float* squares = nullptr;  // [squares_of_stream]: parts of the sum of squares
  int experts = 0;

  constexpr TermPlaces places() const { return {experts + 1}; }
};

inline constexpr int kStreamTile = 16;  // elements that a block computes
constexpr int squares_of_stream(int hidden) { return (hidden + kStreamTile - 1) / kStreamTile; }

struct RoutedOutput {
  const void* x = nullptr;         // [length]
  const void* weight = nullptr;    // [hidden, length]
  const void* bias = nullptr;      // [hidden], or null
  const void* residual = nullptr;  // [hidden]; added to the product
  const void* router = nullptr;    // [experts, hidden]
  const void* gate = nullptr;      // [hidden]: the router of the shared expert
  int length = 0;
  RoutedStream to = {};
  DType dtype = DType::kBF16;
};

// Empty if it can be computed. Null pointers count as aligned.
std::string_view routed_output_refusal(const RoutedOutput& call);
void routed_output(const RoutedOutput& call, void* stream);

}  // namespace fk::cuda
