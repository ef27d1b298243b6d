// `fp8_linear` on CUDA.
#include "ops/l1/fp8_linear.h"

#include "backend/cuda/quantised/linear.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

using StreamedFp8Linear = StreamedQuantisedLinear<Fp8Linear>;
using WrittenOutFp8Linear = WrittenOutLinear<Fp8Linear>;
FK_IMPLEMENTATION(Fp8Linear, StreamedFp8Linear, "cuda.stream_codes", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(Fp8Linear, WrittenOutFp8Linear, "cuda.write_out", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
