// The rotation angle per position of each pair of a rotary embedding. Sines and cosines are multiplied by
// rope_scaling.attention_factor.
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
    } else if (strcmp(scaling.type, "yarn") == 0) {
      // Pairs that turn often are kept, those that turn seldom are scaled, those between interpolated by their index.
      double dims = double(init.rotary_dim), context = double(scaling.original_max_position_embeddings);
      auto pair = [&](double turns) { return dims * log(context / (turns * 2 * M_PI)) / (2 * log(init.base)); };
      double first = pair(scaling.beta_fast), last = pair(scaling.beta_slow);
      if (scaling.truncate) first = floor(first), last = ceil(last);
      first = fmax(first, 0), last = fmin(last, dims - 1);
      if (first == last) last += 0.001;
      double divide = fmin(fmax((double(i) / 2 - first) / (last - first), 0), 1);
      f = (1 - divide) * f + divide * f / scaling.factor;
    } else if (strcmp(scaling.type, "proportional") == 0) {
      // The first pairs turn as those of whole heads, the others do not.
      bool turns = i / 2 < int64_t(scaling.partial_rotary_factor * double(init.rotary_dim) / 2);
      f = turns ? f / scaling.factor : 0;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}
