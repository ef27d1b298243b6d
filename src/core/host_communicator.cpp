#include "core/host_communicator.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/error.h"

namespace fk {
namespace {

// Below this size one exchange of everything is faster than two of a part each. Both give the same sums.
constexpr size_t kSmallBytes = size_t{64} << 10;

std::byte* bytes_of(const View& view) {
  FK_CHECK(view.contiguous() && view.device() == kCpu, "a collective needs a contiguous tensor in the CPU's memory");
  return static_cast<std::byte*>(view.data());
}

template <class T, class Sum>
void sum_typed(const std::byte* block, int64_t blocks, size_t stride_bytes, int64_t n, std::byte* out) {
  constexpr int64_t kTile = 512;
  Sum sums[kTile];
  for (int64_t at = 0; at < n; at += kTile) {
    int64_t count = std::min(kTile, n - at);
    for (int64_t b = 0; b < blocks; ++b) {
      const T* from = reinterpret_cast<const T*>(block + static_cast<size_t>(b) * stride_bytes) + at;
      for (int64_t i = 0; i < count; ++i) sums[i] = (b == 0 ? Sum(0) : sums[i]) + static_cast<Sum>(from[i]);
    }
    T* to = reinterpret_cast<T*>(out) + at;
    for (int64_t i = 0; i < count; ++i) to[i] = T(sums[i]);
  }
}

}  // namespace

void sum_blocks(const std::byte* block, int64_t blocks, size_t stride_bytes, int64_t n, DType dtype, std::byte* out) {
  switch (dtype) {
    case DType::kF64:
      return sum_typed<double, double>(block, blocks, stride_bytes, n, out);
    case DType::kF32:
      return sum_typed<float, float>(block, blocks, stride_bytes, n, out);
    case DType::kF16:
      return sum_typed<f16, float>(block, blocks, stride_bytes, n, out);
    case DType::kBF16:
      return sum_typed<bf16, float>(block, blocks, stride_bytes, n, out);
    case DType::kI32:
      return sum_typed<int32_t, int64_t>(block, blocks, stride_bytes, n, out);
    case DType::kI64:
      return sum_typed<int64_t, int64_t>(block, blocks, stride_bytes, n, out);
    default:
      throw Error("Ranks cannot add up {}; use f64, f32, f16, bf16, i32 or i64.", dtype_name(dtype));
  }
}

void HostCommunicator::all_reduce(const View& x, const View& out, void*) {
  FK_CHECK(x.dtype() == out.dtype() && x.numel() == out.numel());
  const auto ranks = static_cast<size_t>(size()), element = dtype_size(x.dtype());
  const auto n = static_cast<size_t>(x.numel());
  if (n == 0) return;
  if (x.size_bytes() <= kSmallBytes) {
    received_.resize(ranks * x.size_bytes());
    gather_bytes(bytes_of(x), x.size_bytes(), received_.data());
    return sum_blocks(received_.data(), size(), x.size_bytes(), x.numel(), x.dtype(), bytes_of(out));
  }
  // Every rank adds up one block, then all of them are collected. The last blocks may be shorter, or empty.
  const size_t per_rank = (n + ranks - 1) / ranks, bytes = per_rank * element;
  sent_.resize(ranks * bytes);
  received_.resize(ranks * bytes);
  std::memcpy(sent_.data(), bytes_of(x), n * element);
  std::memset(sent_.data() + n * element, 0, sent_.size() - n * element);
  exchange_bytes(sent_.data(), bytes, received_.data());
  sum_blocks(received_.data(), size(), bytes, static_cast<int64_t>(per_rank), x.dtype(), sent_.data());
  gather_bytes(sent_.data(), bytes, received_.data());
  std::memcpy(bytes_of(out), received_.data(), n * element);
}

void HostCommunicator::all_gather(const View& x, const View& out, void*) {
  FK_CHECK(x.dtype() == out.dtype() && out.numel() == size() * x.numel());
  gather_bytes(bytes_of(x), x.size_bytes(), bytes_of(out));
}

void HostCommunicator::reduce_scatter(const View& x, const View& out, void*) {
  FK_CHECK(x.dtype() == out.dtype() && x.numel() == size() * out.numel());
  received_.resize(x.size_bytes());
  exchange_bytes(bytes_of(x), out.size_bytes(), received_.data());
  sum_blocks(received_.data(), size(), out.size_bytes(), out.numel(), x.dtype(), bytes_of(out));
}

void HostCommunicator::all_to_all(const View& x, const View& out, void*) {
  FK_CHECK(x.dtype() == out.dtype() && x.numel() == out.numel() && x.numel() % size() == 0);
  exchange_bytes(bytes_of(x), x.size_bytes() / static_cast<size_t>(size()), bytes_of(out));
}

void HostCommunicator::broadcast(const View& x, int64_t root, void*) {
  FK_CHECK(root >= 0 && root < size());
  broadcast_bytes(bytes_of(x), x.size_bytes(), root);
}

}  // namespace fk
