// `int8_linear` on CUDA.
#include "ops/l1/int8_linear.h"

#include "backend/cuda/quantised/linear.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

using StreamedInt8Linear = StreamedQuantisedLinear<Int8Linear>;
using WrittenOutInt8Linear = WrittenOutLinear<Int8Linear>;
FK_IMPLEMENTATION(Int8Linear, StreamedInt8Linear, "cuda.stream_codes", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(Int8Linear, WrittenOutInt8Linear, "cuda.write_out", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
