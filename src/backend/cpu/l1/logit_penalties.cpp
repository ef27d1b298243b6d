// LogitPenalties on CPU: a few tokens per row, one after the other.
#include "ops/l1/logit_penalties.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

class LogitPenaltiesLoop final : public LogitPenalties {
 public:
  using LogitPenalties::LogitPenalties;

  std::string_view refuse(Args args) const override {
    if (std::string_view reason = refuse_call(args); !reason.empty()) return reason;
    return refuse_floats({&args[0]});
  }

  void forward(Context&, View logits, View starts, View tokens, View counts, View in_prompt, View bias, View repetition,
               View presence, View frequency) override {
    with_float(logits.dtype(), [&]<class T>(T) {
      for (int64_t s = 0; s < logits.size(0); ++s) {
        T* row = row_of<T>(logits, s);
        const float factor = repetition.ptr<float>()[s];
        for (int64_t i = starts.ptr<int32_t>()[s]; i < starts.ptr<int32_t>()[s + 1]; ++i) {
          T& logit = row[tokens.ptr<int64_t>()[i]];
          const auto count = static_cast<float>(counts.ptr<int32_t>()[i]);
          float x = load(logit) + bias.ptr<float>()[i];
          if (count > 0 || in_prompt.ptr<int32_t>()[i] != 0) x = x > 0 ? x / factor : x * factor;
          if (count > 0) x -= frequency.ptr<float>()[s] * count + presence.ptr<float>()[s];
          store(logit, x);
        }
      }
    });
  }
};

FK_IMPLEMENTATION(LogitPenalties, LogitPenaltiesLoop, "cpu.loop", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
