// IndexSelect on CPU.
#include "ops/l1/index_select.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class IndexSelectRowCopy final : public IndexSelect {
 public:
  using IndexSelect::IndexSelect;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View x, View index, View out) override {
    const auto* rows = index.ptr<int64_t>();
    int64_t stride = index.stride(0);
    size_t bytes = static_cast<size_t>(x.size(1)) * dtype_size(x.dtype());
    for_rows(ctx.pool, index.size(0), x.size(1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::memcpy(row_bytes(out, i), row_bytes(x, rows[i * stride]), bytes);
    });
  }
};

FK_IMPLEMENTATION(IndexSelect, IndexSelectRowCopy, "cpu.row_copy", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
