// ConcatColumns on CUDA: two copies.
#include "ops/l1/concat_columns.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/copy_rows.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class ConcatColumnsRowCopy final : public ConcatColumns {
 public:
  using ConcatColumns::ConcatColumns;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View left, View right, View out) override {
    copy_rows({left, OptView(), out.narrow(1, 0, left.size(1))}, ctx.stream);
    copy_rows({right, OptView(), out.narrow(1, left.size(1), right.size(1))}, ctx.stream);
  }
};

FK_IMPLEMENTATION(ConcatColumns, ConcatColumnsRowCopy, "cuda.row_copy", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
