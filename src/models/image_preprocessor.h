// ImagePreprocessor: what a model wants done to pixels before it sees them, from preprocessor_config.json.
#pragma once

#include <string>
#include <vector>

#include "models/image_file.h"
#include "models/model_config.h"

namespace fk {

struct ImagePreprocessor {
  double rescale_factor = 1.0 / 255;
  std::vector<double> mean = {0.5};  // of each channel, or one for all
  std::vector<double> deviation = {0.5};
};

// The defaults of SigLIP where the directory has no such file.
ImagePreprocessor read_image_preprocessor(const std::string& directory);

// f32 [C, H, W] for the model. Images are not resized: Error where the size differs.
Tensor preprocess(const ImagePreprocessor& preprocessor, ImageFile image, const ModelFacts& facts,
                  const std::string& path);

}  // namespace fk
