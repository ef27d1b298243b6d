// JambaDecoderLayer: attention or a Mamba block, then a feed-forward block or experts.
#pragma once

#include "ops/l2/jamba_moe.h"
#include "ops/l2/mamba_mixer.h"
#include "ops/l3/decoder_layer.h"

namespace fk {

struct JambaDecoderLayerInit : DecoderLayerInit {
  MambaMixerInit mamba = {};      // without channels the layer has attention
  SparseMoeBlock::Init moe = {};  // without experts the layer has the feed-forward block `mlp`

  bool has_mamba() const { return mamba.intermediate_size > 0; }
  bool has_experts() const { return moe.num_experts > 0; }

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderLayerInit::visit(v);
    v("mamba", mamba);
    v("moe", moe);
  }
};

class JambaDecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "jamba_decoder_layer";
  static constexpr std::string_view kClass = "JambaDecoderLayer";
  using Init = JambaDecoderLayerInit;

  explicit JambaDecoderLayer(const Init& init) : DecoderLayer(init) {}

  static OutputSpecs outputs(const Init& init, Args given) { return DecoderLayer::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& w) { return DecoderLayer::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<JambaDecoderLayer>> cases();
};

}  // namespace fk
