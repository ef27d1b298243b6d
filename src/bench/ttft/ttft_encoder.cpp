// The measure of encoders: one pass over a batch of texts or images, from their ids or pixels to their vectors.
#include "bench/ttft/probed_iterations.h"
#include "engine/encoder.h"
#include "engine/finite_logits.h"
#include "measure/timer.h"

namespace fk {

TtftResult run_encoder_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  std::unique_ptr<Encoder> encoder = make_encoder(model, pool);
  TtftResult result;
  ProbedIterations iterations(model, pool, options);
  std::vector<Sequence> sequences;
  iterations.run(
      [&](int64_t i) {
        EncoderInput input = encoder->random_input(options.batch_size, options.prompt_tokens,
                                                   options.seed + static_cast<uint64_t>(i + options.warmups));
        sequences = encoder->sequences(input);
        int64_t start = now_ns();
        Encoded encoded = encoder->forward(input);
        double ms = static_cast<double>(now_ns() - start) / kNsPerMs;
        require_finite(model, encoded.last_hidden_state, "vectors");
        if (i >= 0) result.prefill.samples_ms.push_back(ms);
      },
      result);
  Workload pass{.sequences = sequences, .dtype = model.config.facts.dtype};
  iterations.set_floors(result.prefill, {pass});
  return result;
}

}  // namespace fk
