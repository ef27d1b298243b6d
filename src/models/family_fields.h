// FamilyFields: config.json as a family reads it, and the parts of it that many families share.
//
// Every setting that changes the arithmetic is either read or refused by name.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/json_fields.h"
#include "models/model_config.h"
#include "ops/l4/decoder_model_init.h"

namespace fk {

struct FamilyFields : JsonFields {
  FamilyFields(JsonFields fields, std::string_view family_architecture)
      : JsonFields(std::move(fields)), architecture(family_architecture) {}

  std::string_view architecture;
};

// The defaults of the family's configuration class in transformers: a file written by it leaves out fields with default
// values, and older versions lack newer fields.
struct DecoderDefaults {
  int64_t max_position_embeddings = 2048;
  int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  std::string_view activation = "silu";  // the only hidden_act its feed-forward block has
  std::string_view quant_method = {};    // of quantised weights that the family reads itself; empty: it reads none
  // The family reads final_logit_softcapping and use_bidirectional_attention itself.
  bool own_soft_cap_and_direction = false;
};

// Everything in DecoderModelInit but the rotary embedding, which models/config_rope.h reads. Refuses other
// activations and soft caps.
void read_decoder(const FamilyFields& fields, const DecoderDefaults& defaults, DecoderModelInit& init);

// The dtype that the file states; float32 where it states none.
DType read_dtype(const FamilyFields& fields);
// Weights in a quantised format, for families that do not read them: encoders and draft heads.
void refuse_quantized(const FamilyFields& fields);
// Refuses a quantization_config that is not known. For families without read_decoder(), whose matrices are dequantised
// while they are loaded (models/dequantise.h).
void check_quantization(const FamilyFields& fields);

// A flag that some families have and this one does not support.
void refuse_flag(const FamilyFields& fields, std::string_view key);

inline constexpr int64_t kMaxWindow = INT32_MAX;
// sliding_window: 0 where it is null, the default of the configuration class where it is absent.
int64_t read_window(const FamilyFields& fields, int64_t default_window);
// layer_types, the list newer files hold: one flag per layer that says whether it slides; nothing where it is absent.
std::optional<std::vector<uint8_t>> read_layer_types(const FamilyFields& fields, int64_t layers);
// Windows as Qwen 2 and 3 have them: on the layers from max_window_layers on, where use_sliding_window is set.
void read_windows_of_later_layers(const FamilyFields& fields, int64_t layers, SlidingLayers& sliding);

ModelFacts facts_of(const DecoderModelInit& init);

}  // namespace fk
