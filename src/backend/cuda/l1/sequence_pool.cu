// SequencePool on CUDA: a thread adds up one element of all tokens of a sequence.
#include "ops/l1/sequence_pool.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

enum class Pooled : uint8_t { kFirst, kLast, kAll };

template <class T, class Out>
struct Pool {
  RowsOf<const T> x;
  const int32_t* starts;
  RowsOf<Out> out;
  Pooled pooled;

  __device__ void compute(int64_t sequence, int64_t i) const {
    int begin = starts[sequence], end = starts[sequence + 1];
    if (pooled == Pooled::kFirst) end = min(end, begin + 1);
    if (pooled == Pooled::kLast) begin = max(begin, end - 1);
    float sum = 0;
#pragma unroll 4
    for (int t = begin; t < end; ++t) sum += to_float(x.row(t)[i]);
    out.row(sequence)[i] = from_float<Out>(end > begin ? sum / static_cast<float>(end - begin) : 0.0f);
  }
};

class SequencePoolColumns final : public SequencePool {
 public:
  using SequencePool::SequencePool;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (args[2]->dtype() != args[0]->dtype() && args[2]->dtype() != DType::kF32)
      return "out must be f32 or of the dtype of x";
    if (!args[2]->rows_contiguous()) return "rows must be contiguous";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View x, View cu_seqlens, View out) override {
    const Pooled pooled = init_.pooling == "cls"    ? Pooled::kFirst
                          : init_.pooling == "last" ? Pooled::kLast
                                                    : Pooled::kAll;
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      auto pool = [&]<class Out>() {
        map_rows<1>("sequence_pool",
                    Pool<T, Out>{rows_of<const T>(x), cu_seqlens.ptr<int32_t>(), rows_of<Out>(out), pooled}, out,
                    ctx.stream);
      };
      if (out.dtype() == x.dtype())
        pool.template operator()<T>();
      else
        pool.template operator()<float>();
    });
  }
};

FK_IMPLEMENTATION(SequencePool, SequencePoolColumns, "cuda.columns", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
