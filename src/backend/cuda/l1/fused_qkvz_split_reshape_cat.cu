// FusedQKVZSplitReshapeCat on CUDA.
#include "ops/l1/fused_qkvz_split_reshape_cat.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T>
struct SplitQKVZ {
  RowsOf<const T> from;
  RowsOf<T> qkv, z;
  int heads, key, value;  // heads of keys; elements of a query, and of the values that share it

  __device__ void compute(int64_t row, int64_t i) const {
    const int per_head = 2 * (key + value), h = static_cast<int>(i) / per_head, at = static_cast<int>(i) % per_head;
    const T x = from.row(row)[i];
    if (at < key)
      qkv.row(row)[h * key + at] = x;
    else if (at < 2 * key)
      qkv.row(row)[(heads + h) * key + at - key] = x;
    else if (at < 2 * key + value)
      qkv.row(row)[2 * heads * key + h * value + at - 2 * key] = x;
    else
      z.row(row)[h * value + at - 2 * key - value] = x;
  }
};

class SplitQKVZElements final : public FusedQKVZSplitReshapeCat {
 public:
  using FusedQKVZSplitReshapeCat::FusedQKVZSplitReshapeCat;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1], &args[2]}); }

  void forward(Context& ctx, View qkvz, View qkv, View z) override {
    with_float_type(qkvz.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      map_rows<1>("fused_qkvz_split_reshape_cat",
                  SplitQKVZ<T>{rows_of<const T>(qkvz), rows_of<T>(qkv), rows_of<T>(z),
                               static_cast<int>(init_.num_k_heads), static_cast<int>(init_.head_k_dim),
                               static_cast<int>(init_.num_v_heads / init_.num_k_heads * init_.head_v_dim)},
                  qkvz, ctx.stream);
    });
  }
};

FK_IMPLEMENTATION(FusedQKVZSplitReshapeCat, SplitQKVZElements, "cuda.elements", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
