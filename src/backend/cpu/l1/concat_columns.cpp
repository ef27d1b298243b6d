// ConcatColumns on CPU.
#include "ops/l1/concat_columns.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class ConcatColumnsRowCopy final : public ConcatColumns {
 public:
  using ConcatColumns::ConcatColumns;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View left, View right, View out) override {
    const size_t size = dtype_size(out.dtype());
    const size_t left_bytes = static_cast<size_t>(left.size(1)) * size;
    const size_t right_bytes = static_cast<size_t>(right.size(1)) * size;
    for_rows(ctx.pool, out.size(0), out.size(1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(row_bytes(out, i), row_bytes(left, i), left_bytes);
        std::memcpy(row_bytes(out, i) + left_bytes, row_bytes(right, i), right_bytes);
      }
    });
  }
};

FK_IMPLEMENTATION(ConcatColumns, ConcatColumnsRowCopy, "cpu.row_copy", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
