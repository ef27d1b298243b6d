// AllReduce on CPU: with one rank the sum is the tensor itself.
#include "ops/l1/allreduce.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class AllReduceAlone final : public AllReduce {
 public:
  using AllReduce::AllReduce;

  std::string_view refuse(Args args) const override {
    if (init_.world_size != 1) return "this build has no process group, so an all-reduce works with one rank only";
    return refuse_copy(*args[0], *args[1]);
  }

  void forward(Context& ctx, View x, View out) override {
    size_t bytes = static_cast<size_t>(x.size(1)) * dtype_size(x.dtype());
    for_rows(ctx.pool, x.size(0), x.size(1), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) std::memcpy(row_bytes(out, t), row_bytes(x, t), bytes);
    });
  }
};

FK_IMPLEMENTATION(AllReduce, AllReduceAlone, "cpu.alone", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
