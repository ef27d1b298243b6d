// IndexSelect on CUDA.
#include "ops/l1/index_select.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/copy_rows.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class IndexSelectRowCopy final : public IndexSelect {
 public:
  using IndexSelect::IndexSelect;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View x, View index, View out) override { copy_rows({x, index, out}, ctx.stream); }
};

FK_IMPLEMENTATION(IndexSelect, IndexSelectRowCopy, "cuda.row_copy", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
