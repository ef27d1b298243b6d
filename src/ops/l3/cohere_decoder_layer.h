// CohereDecoderLayer: one layer norm, whose output both the attention and the feed-forward block read side by side.
#pragma once

#include "ops/l3/decoder_layer.h"

namespace fk {

class CohereDecoderLayer : public DecoderLayer {
 public:
  static constexpr std::string_view kName = "cohere_decoder_layer";
  static constexpr std::string_view kClass = "CohereDecoderLayer";

  struct Init : DecoderLayerInit {
    bool use_qk_norm = false;  // norms of each head of queries and keys

    template <class Visitor>
    void visit(Visitor&& v) {
      DecoderLayerInit::visit(v);
      v("use_qk_norm", use_qk_norm);
    }
  };

  explicit CohereDecoderLayer(const Init& init) : DecoderLayer(init) {}

  static std::vector<Case<CohereDecoderLayer>> cases();
};

}  // namespace fk
