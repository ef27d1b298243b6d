// The rotation angle per position of each pair of a rotary embedding.
#pragma once

#include <math.h>
#include <string.h>

#include <vector>

template <class Init>
std::vector<double> rope_frequencies(const Init& init) {
  const auto& scaling = init.rope_scaling;
  std::vector<double> frequencies;
  for (int64_t i = 0; i < init.rotary_dim; i += 2) {
    double f = pow(init.base, -double(i) / double(init.rotary_dim));
    if (strcmp(scaling.type, "linear") == 0) {
      f /= scaling.factor;
    } else if (strcmp(scaling.type, "llama3") == 0) {
      // Long wavelengths are scaled, short ones kept, those between interpolated.
      double turns = double(scaling.original_max_position_embeddings) * f / (2 * M_PI);
      double keep = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
      keep = fmin(fmax(keep, 0), 1);
      f = keep * f + (1 - keep) * f / scaling.factor;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}
