// ScaleRows on CPU.
#include "ops/l1/scale_rows.h"

#include "backend/cpu/l1/multiply_row.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class ScaleRowsInPieces final : public ScaleRows {
 public:
  using ScaleRows::ScaleRows;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "scale must be f32";
    return refuse_floats({&args[0], &args[2]});
  }

  void forward(Context& ctx, View x, View scale, View out) override {
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, out.size(0), out.size(1), [&](int64_t r, int64_t, int64_t begin, int64_t end) {
        multiply_row(row_of<T>(x, r) + begin, *row_of<float>(scale, r), row_of<T>(out, r) + begin, end - begin);
      });
    });
  }
};

FK_IMPLEMENTATION(ScaleRows, ScaleRowsInPieces, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
