#include "ops/l2/bert_pooler.h"

#include "ops/l1/activation.h"
#include "ops/l1/linear.h"
#include "ops/l1/sequence_pool.h"
#include "ops/l2/encoder_only_attention.h"
#include "ops/register.h"

namespace fk {

OutputSpecs BertPooler::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[1]->size(0) - 1, init.hidden_size}, given[0]->dtype()}};
}

Inputs BertPooler::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}, sequence_starts(w)};
}

Cost BertPooler::cost(const Init& init, const Workload& w) {
  auto S = static_cast<double>(w.num_sequences()), D = static_cast<double>(init.hidden_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size * (D * D + D + S * D),
          .written_bytes = size * S * D,
          .matrix_flops = 2 * S * D * D,
          .vector_flops = S * D};
}

Tolerance BertPooler::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(init.hidden_size));
}

std::vector<Case<BertPooler>> BertPooler::cases() {
  return {{"one sequence", {.hidden_size = 33}, Workload::batch({{4, 0}})},
          {"ragged", {.hidden_size = 64}, Workload::batch({{1, 0}, {9, 0}, {3, 0}})}};
}

namespace {

class ComposedBertPooler final : public BertPooler {
 public:
  ComposedBertPooler(const Init& c, Builder& builder)
      : BertPooler(c),
        first_token(builder.child<SequencePool>("first_token", {.pooling = "cls"})),
        dense(builder.child<Linear>(
            "dense", {.in_features = c.hidden_size, .out_features = c.hidden_size, .bias = true, .dtype = c.dtype})),
        activation(builder.child<Activation>("activation", {.function = "tanh"})) {}

  void forward(Context& ctx, View hidden_states, View cu_seqlens, View pooled) override {
    activation.into(ctx, dense(ctx, first_token(ctx, hidden_states, cu_seqlens)), pooled);
  }

 private:
  Op<SequencePool> first_token;
  Op<Linear> dense;
  Op<Activation> activation;
};

FK_COMPOSITION(BertPooler, ComposedBertPooler);

}  // namespace
}  // namespace fk
