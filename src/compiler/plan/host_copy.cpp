#include "compiler/plan/host_copy.h"

#include <array>
#include <cstring>
#include <span>

#include "core/device_runtime.h"

namespace fk {

Tensor host_copy(const View& view) {
  Tensor copy(view.spec());
  if (view.device() == kCpu) {
    copy_elements(view, copy.view());
  } else if (view.contiguous()) {
    copy_between(view, copy.view());
  } else if (view.numel() > 0) {
    // Everything between its first and its last element.
    int64_t elements = 1;
    for (int d = 0; d < view.rank(); ++d) elements += (view.size(d) - 1) * view.stride(d);
    Tensor all(Shape({elements}), view.dtype());
    copy_between(View(view.data(), all.view().spec(), view.device()), all.view());
    std::array<int64_t, kMaxRank> index{};
    const std::span<const int64_t> at(index.data(), static_cast<size_t>(view.rank()));
    for (int64_t n = 0; n < view.numel(); ++n) {
      int64_t from = 0;
      for (int d = 0; d < view.rank(); ++d) from += index[static_cast<size_t>(d)] * view.stride(d);
      const size_t size = dtype_size(view.dtype());
      std::memcpy(copy.view().at(at), static_cast<std::byte*>(all.view().data()) + static_cast<size_t>(from) * size,
                  size);
      for (int d = view.rank() - 1; d >= 0 && ++index[static_cast<size_t>(d)] == view.size(d); --d)
        index[static_cast<size_t>(d)] = 0;
    }
  }
  return copy;
}

}  // namespace fk
