// LogitPenalties on CUDA: a block for each row, a thread for each of its entries.
#include "ops/l1/logit_penalties.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kLogitPenaltiesThreads = 128;

struct Entries {
  const int32_t* starts;
  const int64_t* tokens;
  const int32_t* counts;
  const int32_t* in_prompt;
  const float* bias;
  const float* repetition;
  const float* presence;
  const float* frequency;
};

template <class T>
__global__ void __launch_bounds__(kLogitPenaltiesThreads) penalise(RowsOf<T> logits, Entries e) {
  let_next_start();
  wait_for_previous();
  const int64_t s = blockIdx.x;
  T* row = logits.row(s);
  const float factor = e.repetition[s], presence = e.presence[s], frequency = e.frequency[s];
  for (int i = e.starts[s] + static_cast<int>(threadIdx.x); i < e.starts[s + 1]; i += kLogitPenaltiesThreads) {
    T& logit = row[e.tokens[i]];
    const int count = e.counts[i];
    float x = to_float(logit) + e.bias[i];
    if (count > 0 || e.in_prompt[i] != 0) x = x > 0 ? x / factor : x * factor;
    if (count > 0) x -= frequency * static_cast<float>(count) + presence;
    logit = from_float<T>(x);
  }
}

class LogitPenaltiesRows final : public LogitPenalties {
 public:
  using LogitPenalties::LogitPenalties;

  std::string_view refuse(Args args) const override {
    if (std::string_view reason = refuse_call(args); !reason.empty()) return reason;
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View logits, View starts, View tokens, View counts, View in_prompt, View bias,
               View repetition, View presence, View frequency) override {
    const Entries entries{starts.ptr<int32_t>(),    tokens.ptr<int64_t>(), counts.ptr<int32_t>(),
                          in_prompt.ptr<int32_t>(), bias.ptr<float>(),     repetition.ptr<float>(),
                          presence.ptr<float>(),    frequency.ptr<float>()};
    with_packs(logits.dtype(), false, [&](auto type, auto) {
      using T = typename decltype(type)::type;
      launch("logit_penalties", penalise<T>, static_cast<unsigned>(logits.size(0)), kLogitPenaltiesThreads, 0,
             ctx.stream, rows_of<T>(logits), entries);
    });
  }
};

FK_IMPLEMENTATION(LogitPenalties, LogitPenaltiesRows, "cuda.block_per_row", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
