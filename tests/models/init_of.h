// The constructor arguments inside a ModelConfig, with their types.
#pragma once

#include <ostream>

#include "models/model_config.h"
#include "ops/l4/decoder_model_init.h"

namespace fk {

template <class T>
typename T::Init init_of(const ModelConfig& config) {
  return from_fields<typename T::Init>(config.init);
}

// What all decoders have; what the family adds is left out.
inline DecoderModelInit decoder_of(const ModelConfig& config) {
  Fields common;
  for (const Field& field : config.init)
    if (find_field(to_fields(DecoderModelInit{}), field.name) != nullptr) common.push_back(field);
  return from_fields<DecoderModelInit>(common);
}

// How googletest shows a config that is not the expected one.
inline void PrintTo(const ModelConfig& config, std::ostream* out) {
  *out << config.architecture() << "(" << fields_text(config.init) << ")";
}

}  // namespace fk
