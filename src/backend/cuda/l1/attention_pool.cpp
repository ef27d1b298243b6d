// AttentionPool on CUDA: attention in which all sequences have the same query.
#include "ops/l1/attention_pool.h"

#include "backend/cuda/attention/rows.h"
#include "backend/cuda/l1/call.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class AttentionPoolRows final : public AttentionPool {
 public:
  using AttentionPool::AttentionPool;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (std::string_view why = refuse_floats({&args[0], &args[1], &args[2], &args[4]}); !why.empty()) return why;
    return attention_rows_refusal(call_of(*args[0], *args[1], *args[2], *args[3], *args[4]));
  }

  void forward(Context& ctx, View query, View key, View value, View cu_seqlens, View out) override {
    if (out.size(0) > 0) attention_rows(call_of(query, key, value, cu_seqlens, out), ctx.stream);
  }

 private:
  AttentionCall call_of(const View& query, const View& key, const View& value, const View& cu_seqlens,
                        const View& out) const {
    AttentionCall call;
    call.q = query.data();
    call.k = key.data();
    call.v = value.data();
    call.out = out.data();
    call.q_strides = {0, init_.head_size};
    call.k_strides = {key.stride(0), init_.head_size};
    call.v_strides = {value.stride(0), init_.head_size};
    call.out_strides = {out.stride(0), init_.head_size};
    call.cu_seqlens_k = cu_seqlens.ptr<int32_t>();
    call.sequences = call.tokens = static_cast<int>(out.size(0));
    call.heads = call.kv_heads = static_cast<int>(init_.num_heads);
    call.head_size = static_cast<int>(init_.head_size);
    call.scale = static_cast<float>(init_.scale);
    call.causal = false;
    call.dtype = query.dtype();
    return call;
  }
};

FK_IMPLEMENTATION(AttentionPool, AttentionPoolRows, "cuda.warp_per_row", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
