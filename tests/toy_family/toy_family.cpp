// A family from outside src/, whose programs are fastkernels and its runner with this file linked in: a recurrent
// kernel of its own, whose state is a fading sum of the tokens so far, and a matrix that checkpoints store in 4 bits.
#include <array>
#include <string>
#include <vector>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "models/family.h"
#include "ops/l1/recurrence.h"
#include "ops/l1/rms_norm.h"
#include "ops/l2/batched_recurrence.h"
#include "ops/l2/replicated_linear.h"
#include "ops/l4/causal_lm.h"
#include "ops/register.h"

namespace fk {
namespace {

// The kernel: memory = decay * memory + x for every token, and out is the memory after it.
class ToyMemory : public Operator {
 public:
  static constexpr std::string_view kName = "toy_memory";
  static constexpr std::string_view kClass = "ToyMemory";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t hidden_size = 0;
    double decay = 0.75;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("decay", decay);
    }
  };

  // x [T, D], rows contiguous; memory f32 [slots, D]; state_slots i32 [S], negative: the memory begins with zeros and
  // is not kept; cu_seqlens i32 [S + 1], none: one token a sequence -> out [T, D].
  static constexpr std::array kArgs{in("x"), state("memory"), in("state_slots"), opt_in("cu_seqlens"), out("out")};

  explicit ToyMemory(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View memory, View state_slots, OptView cu_seqlens, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) {
    using Kind = Generator::Kind;
    const int64_t S = w.num_sequences();
    const DType wide = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    Inputs all = {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()},
                  InputSpec{{{fk::state_slots(w), init.hidden_size}, wide}, Generator::normal()},
                  InputSpec{{{S}, DType::kI32}, Generator::metadata(Kind::kStateSlots).or_special()},
                  InputSpec{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)}};
    if (!needs_offsets(w)) all[3].reset();
    return all;
  }
  static Cost cost(const Init& init, const Workload& w) {
    auto size = static_cast<double>(dtype_size(w.dtype)), D = static_cast<double>(init.hidden_size);
    auto T = static_cast<double>(w.num_tokens());
    double states = 0;
    for (const Sequence& s : w.sequences) states += s.query_len > 0 ? 4 * D : 0;
    return {.read_bytes = T * D * size + states, .written_bytes = T * D * size + states, .vector_flops = 2 * T * D};
  }
  // A memory holds the roundings of the last tokens.
  static Tolerance tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype, 16); }
  static std::vector<Case<ToyMemory>> cases() {
    return {{"one token each", {.hidden_size = 77}, Workload::batch({{1, 3}, {1, 0}, {1, 9}})},
            {"prompts", {.hidden_size = 64, .decay = 0.5}, Workload::batch({{1, 4}, {7, 0}, {19, 5}})},
            {"one without tokens", {.hidden_size = 24}, Workload::batch({{5, 3}, {0, 2}, {3, 0}})}};
  }

 protected:
  const Init init_;
};

class ToyMemoryOracle final : public ToyMemory {
 public:
  using ToyMemory::ToyMemory;

  void forward(Context&, View x, View memory, View state_slots, OptView cu_seqlens, View out) override {
    for (int64_t s = 0; s < state_slots.size(0); ++s) {
      const RecurrentSequence sequence = recurrent_sequence(state_slots, cu_seqlens, s);
      for (int64_t i = 0; i < init_.hidden_size; ++i) {
        double kept = sequence.slot < 0 ? 0 : get(memory, sequence.slot, i);
        for (int64_t t = sequence.first; t < sequence.last; ++t) {
          kept = init_.decay * kept + get(x, t, i);
          set(out, kept, t, i);
        }
        if (sequence.slot >= 0) set(memory, kept, sequence.slot, i);
      }
    }
  }
};

FK_OPERATOR(ToyMemory, ToyMemoryOracle);

// On a CPU a thread takes whole sequences.
class ToyMemoryRows final : public ToyMemory {
 public:
  using ToyMemory::ToyMemory;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32) return "memory must be f32";
    std::string_view why = refuse_state(*args[1], *args[2], args[3], args[0]->size(0));
    return why.empty() ? refuse_floats({&args[0], &args[4]}) : why;
  }

  void forward(Context& ctx, View x, View memory, View state_slots, OptView cu_seqlens, View out) override {
    const auto decay = static_cast<float>(init_.decay);
    with_float(x.dtype(), [&]<class T>(T) {
      for_items(ctx.pool, state_slots.size(0), [&](int, int64_t s) {
        const RecurrentSequence sequence = recurrent_sequence(state_slots, cu_seqlens, s);
        std::vector<float> zeros(sequence.slot < 0 ? static_cast<size_t>(init_.hidden_size) : 0);
        float* kept = sequence.slot < 0 ? zeros.data() : row_of<float>(memory, sequence.slot);
        for (int64_t t = sequence.first; t < sequence.last; ++t)
          for (int64_t i = 0; i < init_.hidden_size; ++i) {
            kept[i] = decay * kept[i] + load(row_of<T>(x, t)[i]);
            store(row_of<T>(out, t)[i], kept[i]);
          }
      });
    });
  }
};

FK_IMPLEMENTATION(ToyMemory, ToyMemoryRows, "cpu.toy", DeviceKind::kCpu, 0, nullptr);

// The model: in every layer a norm, the memory, and a matrix, added to what came in.
struct ToyMemoryLMInit : DecoderModelInit {
  double decay = 0.75;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("decay", decay);
  }
};

class ToyMemoryLM : public CausalLM<ToyMemoryLM, ToyMemoryLMInit> {
 public:
  static constexpr std::string_view kName = "toy_memory_lm";
  static constexpr std::string_view kClass = "ToyMemoryLM";
  using CausalLM::CausalLM;

  static ToyMemory::Init memory(const Init& init) { return {.hidden_size = init.hidden_size, .decay = init.decay}; }
  // Its format is what quantization_config says of o_proj.
  static ReplicatedLinear::Init matrix(const Init& init, int64_t i) {
    return {.input_size = init.hidden_size,
            .output_size = init.hidden_size,
            .weight_format = format_of_module(formats_of_layer(init.weight_format, i), "o_proj"),
            .dtype = init.dtype};
  }
  static std::vector<StateSpec> states(const Init& init) {
    std::vector<StateSpec> all;
    for (int64_t i = 0; i < init.num_hidden_layers; ++i)
      all.push_back({"memory_" + std::to_string(i), StateKind::kPerSequence, {init.hidden_size}, DType::kF32});
    return all;
  }
  // With what goes into a layer and comes out of it, as the cost of a model expects.
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    Cost cost = ToyMemory::cost(memory(init), w), product = ReplicatedLinear::cost(matrix(init, i), w);
    const double stream = product.written_bytes;
    cost.read_bytes += product.read_bytes - stream + (w.optional_inputs ? stream : 0);
    cost.written_bytes += product.written_bytes;
    cost.matrix_flops += product.matrix_flops;
    cost.vector_flops += product.vector_flops;
    cost.matrix_speedup = product.matrix_speedup;
    return cost;
  }
  static std::vector<Case<ToyMemoryLM>> cases() {
    Init c{{.vocab_size = 97, .hidden_size = 64, .intermediate_size = 64, .num_hidden_layers = 2}};
    c.weight_format = "int4_gptq_g32;embed_tokens=none;lm_head=none";
    return {{"mixed", c, Workload::batch({{1, 18}, {6, 0}})}};
  }
};

class ComposedToyMemoryLM final : public ToyMemoryLM {
 public:
  ComposedToyMemoryLM(const Init& c, Builder& builder)
      : ToyMemoryLM(c),
        embed_tokens(builder.child<VocabParallelEmbedding>(
            "model.embed_tokens", {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        add(builder.child<ScaleAdd>("add", {})),
        norm(builder.child<RMSNorm>("model.norm",
                                    {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .dtype = c.dtype})),
        lm_head(builder.child<ParallelLMHead>(
            "lm_head", {.num_embeddings = c.vocab_size, .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        select(builder.child<IndexSelect>("index_select", {})) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      const std::string prefix = "model.layers." + std::to_string(i);
      layers.push_back({builder.child<RMSNorm>(prefix + ".norm",
                                               {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps, .dtype = c.dtype}),
                        builder.child<ToyMemory>(prefix + ".memory", memory(c)),
                        builder.child<ReplicatedLinear>(prefix + ".o_proj", matrix(c, i))});
    }
  }

  void forward(Context& ctx, View input_ids, View, View logits_indices, View logits) override {
    View hidden = embed_tokens(ctx, input_ids);
    for (size_t i = 0; i < layers.size(); ++i) {
      View normed = std::get<0>(layers[i].norm(ctx, hidden)), remembered = ctx.arena.make(hidden.spec());
      for_groups(*ctx.attention, [&](int64_t begin, int64_t count, const SequenceGroup& group, bool decoding) {
        layers[i].memory.into(ctx, normed.narrow(0, begin, count), own_state(ctx, i), group.state_slots,
                              decoding ? OptView() : OptView(group.cu_seqlens_q), remembered.narrow(0, begin, count));
      });
      hidden = add(ctx, std::get<0>(layers[i].matrix(ctx, remembered)), hidden);
    }
    lm_head.into(ctx, std::get<0>(norm(ctx, select(ctx, hidden, logits_indices))), logits);
  }

 private:
  struct Layer {
    Op<RMSNorm> norm;
    Op<ToyMemory> memory;
    Op<ReplicatedLinear> matrix;
  };
  Op<VocabParallelEmbedding> embed_tokens;
  std::vector<Layer> layers;
  Op<ScaleAdd> add;
  Op<RMSNorm> norm;
  Op<ParallelLMHead> lm_head;
  Op<IndexSelect> select;
};

FK_COMPOSITION(ToyMemoryLM, ComposedToyMemoryLM);

// The family: how its config.json is read. Its checkpoints have the names of the tree.
ToyMemoryLM::Init read_toy(const FamilyFields& fields) {
  ToyMemoryLM::Init init;
  read_decoder(fields, {}, init);
  init.decay = fields.real("decay", 0, 1).value_or(0.75);
  return init;
}

const RegisterFamily<ToyMemoryLM, read_toy> kToy({.name = "toy", .category = "toy", .model_type = "toy"});

}  // namespace
}  // namespace fk
