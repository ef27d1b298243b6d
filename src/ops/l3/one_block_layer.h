// Layers of one block: a norm, the block, and the residual. Of models without feed-forward blocks, as Mamba.
#pragma once

#include "ops/l1/rms_norm.h"
#include "ops/l1/scale_add.h"
#include "ops/op.h"

namespace fk {

// Mixer: the block, forward(hidden_states, out), whose Init has hidden_size and dtype.
template <class Mixer>
struct OneBlockLayerInit {
  typename Mixer::Init mixer = {};
  double rms_norm_eps = 1e-5;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("mixer", mixer);
    v("rms_norm_eps", rms_norm_eps);
  }
};

struct DecoderModelInit;
// The arguments of a layer with the formats of its matrices, as decoder_model_init.h has it for layers with attention:
// the matrices of these blocks are of the model's dtype.
template <class Mixer>
OneBlockLayerInit<Mixer> with_formats(OneBlockLayerInit<Mixer> layer, const DecoderModelInit&, int64_t) {
  return layer;
}

template <class Mixer>
class OneBlockLayer : public Operator {
 public:
  static constexpr int kLevel = 3;
  using Init = OneBlockLayerInit<Mixer>;

  // As DecoderLayer: the output of the last block and the residual go in and out as a pair.
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), opt_in("residual"), out("out"),
                                    out("residual_out")};

  explicit OneBlockLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
                       View residual_out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) {
    InputSpec positions{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)};
    Inputs inputs = Mixer::inputs(init.mixer, w);
    return {positions, inputs[0], w.optional_inputs ? inputs[0] : std::nullopt};
  }
  static Cost cost(const Init& init, const Workload& w) {
    Cost cost = Mixer::cost(init.mixer, w);
    double stream =
        static_cast<double>(w.num_tokens() * init.mixer.hidden_size * static_cast<int64_t>(dtype_size(w.dtype)));
    cost.read_bytes += w.optional_inputs ? stream : 0;
    cost.written_bytes += stream;
    return cost;
  }
  static Tolerance tolerance(const Init& init, DType dtype) {
    // The roundings of the norm come on top of the mixer's.
    Tolerance t = Mixer::tolerance(init.mixer, dtype);
    Tolerance norm = composed_tolerance(dtype, static_cast<double>(init.mixer.hidden_size));
    return {t.relative + norm.relative, t.of_scale + norm.of_scale};
  }

 protected:
  const Init init_;
};

// T: the operator.
template <class T, class Mixer>
class ComposedOneBlockLayer final : public T {
 public:
  ComposedOneBlockLayer(const typename T::Init& init, Builder& builder)
      : T(init),
        norm(builder.child<RMSNorm>(
            "norm", {.hidden_size = init.mixer.hidden_size, .eps = init.rms_norm_eps, .dtype = init.mixer.dtype})),
        mixer(builder.child<Mixer>("mixer", init.mixer)),
        copy(builder.child<ScaleAdd>("copy", {})) {}

  void forward(Context& ctx, View, View hidden_states, OptView residual, View out, View residual_out) override {
    View normed;
    if (residual) {
      normed = ctx.arena.make({hidden_states.shape(), hidden_states.dtype()});
      norm.into(ctx, hidden_states, residual, normed, residual_out);
    } else {
      normed = std::get<0>(norm(ctx, hidden_states));
      copy.into(ctx, hidden_states, OptView(), residual_out);
    }
    mixer.into(ctx, normed, out);
  }

 private:
  Op<RMSNorm> norm;
  Op<Mixer> mixer;
  Op<ScaleAdd> copy;
};

}  // namespace fk
