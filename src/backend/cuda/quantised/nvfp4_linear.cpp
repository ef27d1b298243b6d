// `nvfp4_linear` on CUDA.
#include "ops/l1/nvfp4_linear.h"

#include "backend/cuda/quantised/linear.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

using StreamedNvfp4Linear = StreamedQuantisedLinear<Nvfp4Linear>;
using WrittenOutNvfp4Linear = WrittenOutLinear<Nvfp4Linear>;
FK_IMPLEMENTATION(Nvfp4Linear, StreamedNvfp4Linear, "cuda.stream_codes", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(Nvfp4Linear, WrittenOutNvfp4Linear, "cuda.write_out", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
