// DraftToTarget on CUDA: one thread for each logit of the target.
#include "ops/l1/draft_to_target.h"

#include "backend/cuda/device/launch.cuh"
#include "core/device_runtime.h"
#include "core/memory.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kDraftToTargetThreads = 256;

__global__ void __launch_bounds__(kDraftToTargetThreads)
    spread(const float* draft, int64_t draft_stride, const int32_t* tokens, int64_t vocabulary, float* logits,
           int64_t logits_stride, unsigned pieces) {
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / pieces;
  const int64_t i = static_cast<int64_t>(blockIdx.x % pieces) * kDraftToTargetThreads + threadIdx.x;
  if (i >= vocabulary) return;
  const int32_t token = tokens[i];
  logits[row * logits_stride + i] = token < 0 ? -INFINITY : draft[row * draft_stride + token];
}

class DraftToTargetPerThread final : public DraftToTarget {
 public:
  using DraftToTarget::DraftToTarget;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View draft_logits, View logits) override {
    const unsigned pieces = blocks_for(init_.vocab_size, kDraftToTargetThreads);
    launch("draft_to_target", spread, static_cast<unsigned>(logits.size(0)) * pieces, kDraftToTargetThreads, 0,
           ctx.stream, draft_logits.ptr<float>(), draft_logits.stride(0),
           reinterpret_cast<const int32_t*>(tokens_.data()), init_.vocab_size, logits.ptr<float>(), logits.stride(0),
           pieces);
  }

 private:
  void prepare() override {
    const std::vector<int32_t> tokens = draft_tokens();
    const Device device = param(0).device();
    tokens_ = Buffer(tokens.size() * sizeof(int32_t), device);
    DeviceRuntime& runtime = device_runtime(device);
    runtime.upload(tokens_.data(), tokens.data(), tokens.size() * sizeof(int32_t));
    runtime.synchronize();
  }

  Buffer tokens_;
};

FK_IMPLEMENTATION(DraftToTarget, DraftToTargetPerThread, "cuda.thread_per_logit", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
