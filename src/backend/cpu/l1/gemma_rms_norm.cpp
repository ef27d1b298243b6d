// GemmaRMSNorm on CPU.
#include "ops/l1/gemma_rms_norm.h"

#include "backend/cpu/l1/norm_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class GemmaRMSNormRowPerThread final : public GemmaRMSNorm {
 public:
  using GemmaRMSNorm::GemmaRMSNorm;

  std::string_view refuse(Args args) const override { return refuse_norm(args); }

  void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) override {
    norm_rows(ctx.pool, {x, residual, weight(), out, residual_out, init_.eps, 1});
  }
};

FK_IMPLEMENTATION(GemmaRMSNorm, GemmaRMSNormRowPerThread, "cpu.row_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
