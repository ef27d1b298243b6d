// MLAPrefill on CPU: tiles of the queries of a head over packed blocks of its keys, of which each is put together from
// the head's part and the part that all heads share.
#include "ops/l1/mla_prefill.h"

#include <cstring>

#include "backend/cpu/attention/latent.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

struct ProjectedKeys final : LatentSets {
  const MLAPrefill::Init& init;
  View q, kv, k_pe, cu_seqlens, out, lse;
  size_t size;  // of an element

  ProjectedKeys(const MLAPrefill::Init& of, View queries, View projected, View rotated, View cu, View to, View to_lse)
      : init(of),
        q(queries),
        kv(projected),
        k_pe(rotated),
        cu_seqlens(cu),
        out(to),
        lse(to_lse),
        size(dtype_size(queries.dtype())) {}

  int64_t first(int64_t i) const { return cu_seqlens.ptr<int32_t>()[i / init.num_heads]; }
  int64_t head(int64_t i) const { return i % init.num_heads; }

  int64_t count() const override { return (cu_seqlens.size(0) - 1) * init.num_heads; }
  Set set(int64_t i) const override {
    int64_t n = cu_seqlens.ptr<int32_t>()[i / init.num_heads + 1] - first(i);
    return {n, n};
  }
  int64_t keys_of_row(int64_t, int64_t row) const override { return row + 1; }
  void key_rows(int64_t i, int64_t key, int64_t n, const void** k, const void** v, std::byte* scratch) const override {
    size_t nope = static_cast<size_t>(init.qk_nope_head_dim) * size,
           rope = static_cast<size_t>(init.qk_rope_head_dim) * size;
    for (int64_t j = 0; j < n; ++j, scratch += nope + rope) {
      int64_t token = first(i) + key + j;
      const std::byte* projected = at(kv, token, head(i));
      std::memcpy(scratch, projected, nope);
      std::memcpy(scratch + nope,
                  static_cast<const std::byte*>(k_pe.data()) + token * k_pe.stride(0) * static_cast<int64_t>(size), rope);
      k[j] = scratch;
      v[j] = projected + nope;
    }
  }
  void copy_query(int64_t i, int64_t row, std::byte* to) const override {
    std::memcpy(to, at(q, first(i) + row, head(i)),
                static_cast<size_t>(init.qk_nope_head_dim + init.qk_rope_head_dim) * size);
  }
  void* out_row(int64_t i, int64_t row) const override { return at(out, first(i) + row, head(i)); }
  float* lse_of(int64_t i, int64_t row) const override {
    return lse.ptr<float>() + head(i) * lse.stride(0) + first(i) + row;
  }

 private:
  std::byte* at(const View& v, int64_t token, int64_t h) const {
    return static_cast<std::byte*>(v.data()) + (token * v.stride(0) + h * v.stride(1)) * static_cast<int64_t>(size);
  }
};

class MLAPrefillTiles final : public MLAPrefill {
 public:
  using MLAPrefill::MLAPrefill;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[4]}) : why;
  }

  void forward(Context& ctx, View q, View kv, View k_pe, View cu_seqlens, View out, View lse) override {
    latent_attention(
        ctx, latent_kernel(q.dtype()),
        {init_.qk_nope_head_dim + init_.qk_rope_head_dim, init_.v_head_dim, init_.softmax_scale, q.dtype()},
        ProjectedKeys(init_, q, kv, k_pe, cu_seqlens, out, lse));
  }
};

FK_IMPLEMENTATION(MLAPrefill, MLAPrefillTiles, "cpu.tiles", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
