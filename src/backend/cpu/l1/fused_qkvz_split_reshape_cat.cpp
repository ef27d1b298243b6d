// FusedQKVZSplitReshapeCat on CPU, for elements of any size.
#include "ops/l1/fused_qkvz_split_reshape_cat.h"

#include <cstddef>
#include <cstring>

#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class SplitQKVZRows final : public FusedQKVZSplitReshapeCat {
 public:
  using FusedQKVZSplitReshapeCat::FusedQKVZSplitReshapeCat;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_copy(*args[0], *args[1]);
    return why.empty() ? refuse_copy(*args[0], *args[2]) : why;
  }

  void forward(Context& ctx, View qkvz, View qkv, View z) override {
    const auto size = static_cast<int64_t>(dtype_size(qkvz.dtype()));
    const int64_t K = init_.head_k_dim * size, V = init_.num_v_heads / init_.num_k_heads * init_.head_v_dim * size;
    auto row = [&](const View& v, int64_t t) { return static_cast<std::byte*>(v.data()) + t * v.stride(0) * size; };
    for_rows(ctx.pool, qkvz.size(0), qkvz.size(1), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const std::byte* from = row(qkvz, t);
        std::byte *q = row(qkv, t), *k = q + init_.keys() * size, *v = k + init_.keys() * size, *gate = row(z, t);
        auto take = [&](std::byte*& to, int64_t bytes) {
          std::memcpy(to, from, static_cast<size_t>(bytes));
          to += bytes;
          from += bytes;
        };
        for (int64_t h = 0; h < init_.num_k_heads; ++h) {
          take(q, K);
          take(k, K);
          take(v, V);
          take(gate, V);
        }
      }
    });
  }
};

FK_IMPLEMENTATION(FusedQKVZSplitReshapeCat, SplitQKVZRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
