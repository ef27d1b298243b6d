// What kernels do with the sums of a feature: bias, activation.
#pragma once

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/experts/call.h"
#include "backend/cuda/l1/swigluoai.cuh"

namespace fk::cuda {

// Rows of an expert's matrix that belong to a feature.
struct FeatureRows {
  int gate;  // the only one of a plain product
  int up;
};
template <ExpertsEpilogue kEpilogue>
__device__ __forceinline__ FeatureRows feature_rows(const ExpertsCall& call, int feature) {
  if constexpr (kEpilogue == ExpertsEpilogue::kSwigluOAI)
    return {2 * feature, 2 * feature + 1};
  else
    return {feature, feature + call.features};
}

// The bias of a row of the matrix of an expert.
template <class T>
__device__ __forceinline__ float bias_of(const ExpertsCall& call, int weight_rows, int expert, int row) {
  if (call.bias == nullptr) return 0;
  return to_float(static_cast<const T*>(call.bias)[static_cast<int64_t>(expert) * weight_rows + row]);
}

// Of sums with their bias. Rounded first, as the result of a separate product would be.
template <ExpertsEpilogue kEpilogue, class T>
__device__ __forceinline__ float gated(const ExpertsCall& call, float gate, float up) {
  gate = to_float(from_float<T>(gate));
  up = to_float(from_float<T>(up));
  if constexpr (kEpilogue == ExpertsEpilogue::kSwigluOAI)
    return swigluoai<T>(gate, up, {call.alpha, call.limit});
  else
    return over_one_plus_exp<T>(gate, -gate) * up;
}

// Calls f.template operator()<epilogue>() with that of a call.
template <class F>
void with_experts_epilogue(const ExpertsCall& call, F&& f) {
  if (call.epilogue == ExpertsEpilogue::kPlain)
    f.template operator()<ExpertsEpilogue::kPlain>();
  else if (call.epilogue == ExpertsEpilogue::kSiluAndMul)
    f.template operator()<ExpertsEpilogue::kSiluAndMul>();
  else
    f.template operator()<ExpertsEpilogue::kSwigluOAI>();
}

}  // namespace fk::cuda
