// Launches the token kernel: sizes of its shared memory, and the instantiation for a head size.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "backend/cuda/decode_megakernel/token_block.cuh"
#include "core/check.h"

namespace fk::cuda {

struct TokenDevice {
  int multiprocessors = 0;
  bool cooperative = false;
};

inline const TokenDevice& token_device() {
  static const TokenDevice only = [] {
    int index = 0, multiprocessors = 0, cooperative = 0;
    // Models can be listed without a device.
    if (cudaGetDevice(&index) != cudaSuccess) {
      cudaGetLastError();
      return TokenDevice{};
    }
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index), "Counting multiprocessors");
    check(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, index), "Asking for cooperative launches");
    return TokenDevice{multiprocessors, cooperative != 0};
  }();
  return only;
}

// Calls f with the head size as a constant; false for sizes there is no kernel for.
template <TokenKind kKind = TokenKind::kDense, bool kCoded = false, class F>
bool with_head_size(int64_t head_size, F&& f) {
  constexpr bool kDense = kKind == TokenKind::kDense && !kCoded, kPacked = kKind == TokenKind::kPackedExperts;
  switch (head_size) {
    case 64:
      f(std::integral_constant<int, 64>{});
      return true;
    case 128:
      if constexpr (!kPacked) f(std::integral_constant<int, 128>{});
      return !kPacked;
    case 256:
      if constexpr (kDense) f(std::integral_constant<int, 256>{});
      return kDense;
    default:
      return false;
  }
}

// Shared memory for the longest input vector of a product, or the partial results of attention.
inline size_t token_scratch_bytes(const TokenCall& call, int64_t head_size) {
  size_t bytes = 0;
  const int step = std::max(kStep, token_layout(call.codes).step_columns);
  const size_t step_bytes =
      sizeof(__nv_bfloat16) * static_cast<size_t>(step) + (call.codes == TokenCodes::kInt4 ? kSumsOfStep : 0);  // of x
  for (const ProductShape& s : call.shapes)
    bytes = std::max(bytes, step_bytes * static_cast<size_t>((s.length + step - 1) / step));
  with_head_size(head_size, [&](auto size) {
    bytes = std::max(bytes, TokenAttention<__nv_bfloat16, size()>::values_bytes(call.heads / call.kv_heads));
  });
  return (bytes + 127) / 128 * 128;
}

// Shared memory beside the ring of weights.
inline size_t bytes_beside_ring(const TokenCall& call, int64_t head_size) {
  size_t fixed = sizeof(Fixed);
  if (call.experts.count > 0) {
    fixed = call.experts.packed ? sizeof(FixedWithPackedExperts) : sizeof(FixedWithExperts);
    fixed += static_cast<size_t>(expert_layers_bytes(call) + router_bytes(call, token_device().multiprocessors));
  }
  return fixed + token_scratch_bytes(call, head_size);
}

// Of a slot of the ring, with the records of its rows.
inline size_t bytes_of_slot(const TokenCall& call) {
  return static_cast<size_t>(kSlotBytes + record_bytes_of_slot(call.codes));
}

// As many slots as fit: more loads in flight hide longer waits.
inline int slots_that_fit(const TokenCall& call, int64_t head_size) {
  const size_t beside = bytes_beside_ring(call, head_size);
  if (shared_memory_of_block() < beside) return 0;
  return static_cast<int>(std::min<size_t>(kMostSlots, (shared_memory_of_block() - beside) / bytes_of_slot(call)));
}

// Which block has which rows.
inline void divide_products(TokenCall& call, int blocks) {
  const int step = token_layout(call.codes).step_columns;
  for (int kind = 0; kind < kProductKinds; ++kind) {
    DividedShape& s = call.shapes[kind];
    const bool coded = call.codes != TokenCodes::kNone && kind != kHead;
    const int length = coded ? (s.length + step - 1) / step * kStep : s.length;
    s.division = divide_pairs(pairs_of(s), length, blocks);
  }
}

template <TokenKind kKind, class Weights, int kHeadSize, class Handover>
void start_token(TokenCall call, void* stream) {
  auto* kernel = decode_token_kernel<__nv_bfloat16, kHeadSize, Handover, kKind, Weights>;
  call.scratch_bytes = static_cast<int>(token_scratch_bytes(call, kHeadSize));
  call.slots = slots_that_fit(call, kHeadSize);
  divide_products(call, token_device().multiprocessors);
  const size_t shared = bytes_beside_ring(call, kHeadSize) + static_cast<size_t>(call.slots) * bytes_of_slot(call);
  static size_t allowed = 0;
  if (shared > allowed) allow_shared_memory("decode_token", kernel, allowed = shared);
  launch("decode_token", kernel,
         LaunchShape{.grid = static_cast<unsigned>(token_device().multiprocessors),
                     .block = kLaunchThreads,
                     .shared_bytes = shared,
                     .cooperative = true},
         stream, call);
}

// Calls f(Type<Handover>{}, call) in the mode of FASTKERNELS_DEBUG_HANDOVER (handover.cuh).
template <class Call, class F>
void with_handover(Call call, F&& f) {
  const char* debug = std::getenv("FASTKERNELS_DEBUG_HANDOVER");
  const std::string_view way = debug == nullptr ? "" : debug;
  if (way.empty()) {
    f(Type<AtOnce>{}, call);
  } else if (way == "lanes") {
    f(Type<EveryLane>{}, call);
  } else {
    call.dawdle = static_cast<unsigned>(std::strtoul(debug, nullptr, 10));
    f(Type<Dawdling>{}, call);
  }
}

template <TokenKind kKind, class Weights = ElementWeights>
void start_token(const TokenCall& call, int64_t head_size, void* stream) {
  const bool known = with_head_size<kKind, Weights::kCodes != TokenCodes::kNone>(head_size, [&](auto size) {
    with_handover(call, [&](auto handover, const TokenCall& in_mode) {
      start_token<kKind, Weights, size(), typename decltype(handover)::type>(in_mode, stream);
    });
  });
  FK_CHECK(known);
}

}  // namespace fk::cuda
