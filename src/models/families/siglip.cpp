// SigLIP and SigLIP 2, their vision towers for images of one size.
#include "core/error.h"
#include "models/encoder_fields.h"
#include "models/family.h"
#include "ops/l4/siglip_vision_model.h"

namespace fk {
namespace {

SiglipVisionModel::Init read_siglip(const FamilyFields& fields) {
  EncoderDimensions d = read_encoder(fields, {.hidden_size = 768,
                                              .intermediate_size = 3072,
                                              .num_hidden_layers = 12,
                                              .num_attention_heads = 12,
                                              .layer_norm_eps = 1e-6,
                                              .hidden_act = "gelu_pytorch_tanh"});
  SiglipVisionModel::Init init{.hidden_size = d.hidden_size,
                               .intermediate_size = d.intermediate_size,
                               .num_hidden_layers = d.num_hidden_layers,
                               .num_attention_heads = d.num_attention_heads,
                               .layer_norm_eps = d.layer_norm_eps,
                               .hidden_act = d.hidden_act};
  constexpr int64_t kMostPixels = 1 << 14;  // of a side
  init.num_channels = fields.integer("num_channels", 1, 1 << 10).value_or(3);
  init.image_size = fields.integer("image_size", 1, kMostPixels).value_or(224);
  init.patch_size = fields.integer("patch_size", 1, kMostPixels).value_or(16);
  init.vision_use_head = fields.boolean("vision_use_head").value_or(true);
  init.dtype = read_dtype(fields);
  if (init.patch_size > init.image_size)
    throw Error("{}: patch_size {} must be at most image_size {}.", fields.what(), init.patch_size, init.image_size);
  return init;
}

}  // namespace

// Not in the unnamed namespace: RegisterFamily finds it by its argument.
static ModelFacts facts_of(const SiglipVisionModel::Init& init) {
  return {.hidden_size = init.hidden_size,
          .num_hidden_layers = init.num_hidden_layers,
          .max_position_embeddings = SiglipVisionEmbeddings::patches(SiglipVisionModel::embeddings(init)).places(),
          .num_channels = init.num_channels,
          .image_size = init.image_size,
          .patch_size = init.patch_size,
          .dtype = init.dtype};
}

namespace {

const RegisterFamily<SiglipVisionModel, read_siglip> kSiglip(
    {.name = "siglip",
     .category = "vision",
     .model_type = "siglip_vision_model",
     .task = Task::kImageEncoder,
     // The pooling head's product is one tensor in the checkpoint too, under a name without a dot.
     .packed = {{"qkv_proj", {"q_proj", "k_proj", "v_proj"}}, {"in_proj.", {"in_proj_"}}},
     .refused = {{"Siglip2VisionModel",
                  "describes a SigLIP 2 for images of any size, which is not supported; those for one size name "
                  "SiglipModel or SiglipVisionModel."},
                 {"Siglip2Model",
                  "describes a SigLIP 2 for images of any size, which is not supported; those for one size name "
                  "SiglipModel or SiglipVisionModel."}},
     .parts_of = {{"SiglipModel", "siglip", "vision_config"}},
     .part_prefix = "vision_model.",
     .other_parts = {"text_model.", "logit_scale", "logit_bias"}});

}  // namespace
}  // namespace fk
