// Dummy weights: every element a function of (seed, tensor name, index), so any tool can make the same ones.
//
// Element i of a tensor (row-major) takes 16 bits of Philox block i / 8 of the stream (seed, name): half i % 2 (0: low)
// of word i % 8 / 2. With h those bits, u = (2h + 1 - 65536) / 65536 is in (-1, 1), and the value is offset + scale *
// u, each step rounded to float, then rounded to the tensor's type. tools/golden/dummy.py makes the same numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor.h"
#include "core/thread_pool.h"
#include "ops/formats/weight_format.h"
#include "ops/workload.h"

namespace fk {

struct DummyRange {
  float offset = 0;
  float scale = 1;
};

// Norm weights are centred at norm_offset (1, or 0 where the norm adds 1 itself), biases around 0, and a matrix [out,
// in], several in one tensor [experts, out, in], or the weights of a convolution [out, channels, height, width] have
// variance 1 / fan_in, so that activations keep their size from layer to layer. A learned token [1, 1, D] has elements
// of the size of activations. Biases of time steps are around -4, which makes steps as small as trained ones.
DummyRange dummy_range(std::string_view name, const Shape& shape, float norm_offset);

// Fills a contiguous f32, f16 or bf16 view with elements first .. first + numel - 1 of the tensor `name`.
void fill_dummy(const View& destination, uint64_t seed, std::string_view name, DummyRange range, ThreadPool& pool,
                int64_t first = 0);

// A quantised matrix of the numbers that one of elements would have. `bytes` is [rows, bytes of a row], on the CPU.
void fill_dummy_format(const View& bytes, const WeightFormat& format, uint64_t seed, std::string_view name,
                       ThreadPool& pool);

// A tensor of a quantised matrix (ParamSpec::fill), on the CPU: any bits as integers, e4m3 numbers from 8 to 120 of
// either sign, or uniform numbers.
void fill_dummy_tensor(const View& destination, const Generator& generator, uint64_t seed, std::string_view name,
                       ThreadPool& pool);

}  // namespace fk
