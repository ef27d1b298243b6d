// Argmax on CPU.
#include "ops/l1/argmax.h"

#include "backend/cpu/l1/row_max.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class ArgmaxBlockMax final : public Argmax {
 public:
  using Argmax::Argmax;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kI64) return "out must be i64";
    if (args[0]->size(1) == 0) return "a row must have at least one element";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View x, View out) override {
    int64_t rows = x.size(0), N = x.size(1), pieces = pieces_per_row(N);
    View scratch = ctx.arena.make({{rows * pieces, static_cast<int64_t>(sizeof(RowMax))}, DType::kU8});
    auto* best = static_cast<RowMax*>(scratch.data());
    with_float(x.dtype(), [&]<class T>(T) {
      for_row_pieces(ctx.pool, rows, N, [&](int64_t r, int64_t piece, int64_t begin, int64_t end) {
        RowMax found = row_max(row_of<T>(x, r) + begin, end - begin);
        best[r * pieces + piece] = {found.key, found.index + begin};
      });
    });
    for (int64_t r = 0; r < rows; ++r) {
      const RowMax* first = best + r * pieces;
      const RowMax* largest =
          std::max_element(first, first + pieces, [](const RowMax& a, const RowMax& b) { return a.key < b.key; });
      out.ptr<int64_t>()[r * out.stride(0)] = largest->index;
    }
  }
};

FK_IMPLEMENTATION(Argmax, ArgmaxBlockMax, "cpu.block_max", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
