// `ternary_linear` on CUDA.
#include "ops/l1/ternary_linear.h"

#include "backend/cuda/quantised/linear.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

using StreamedTernaryLinear = StreamedQuantisedLinear<TernaryLinear>;
using WrittenOutTernaryLinear = WrittenOutLinear<TernaryLinear>;
FK_IMPLEMENTATION(TernaryLinear, StreamedTernaryLinear, "cuda.stream_codes", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(TernaryLinear, WrittenOutTernaryLinear, "cuda.write_out", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
