// `int4_linear` on CUDA.
#include "ops/l1/int4_linear.h"

#include "backend/cuda/quantised/linear.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

using StreamedInt4Linear = StreamedQuantisedLinear<Int4Linear>;
using WrittenOutInt4Linear = WrittenOutLinear<Int4Linear>;
FK_IMPLEMENTATION(Int4Linear, StreamedInt4Linear, "cuda.stream_codes", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(Int4Linear, WrittenOutInt4Linear, "cuda.write_out", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
