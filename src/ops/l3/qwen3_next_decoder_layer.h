// Qwen3NextDecoderLayer: a gated delta net or gated attention, then experts.
#pragma once

#include "ops/l2/gated_delta_net.h"
#include "ops/l3/sparse_decoder_layer.h"

namespace fk {

struct Qwen3NextDecoderLayerInit : SparseDecoderLayerInit {
  GatedDeltaNet::Init linear = {};  // with heads: in place of attention

  bool is_linear() const { return linear.num_v_heads > 0; }

  template <class Visitor>
  void visit(Visitor&& v) {
    SparseDecoderLayerInit::visit(v);
    v("linear", linear);
  }
};

class Qwen3NextDecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "qwen3_next_decoder_layer";
  static constexpr std::string_view kClass = "Qwen3NextDecoderLayer";
  using Init = Qwen3NextDecoderLayerInit;

  explicit Qwen3NextDecoderLayer(const Init& init) : DecoderLayer(init), init_(init) {}

  static OutputSpecs outputs(const Init& init, Args given) { return DecoderLayer::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& w) { return DecoderLayer::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Qwen3NextDecoderLayer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
