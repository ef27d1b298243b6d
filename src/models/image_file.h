// Images from files that need no library: binary PPM and PGM (P6, P5), and NumPy arrays (.npy).
#pragma once

#include <string>

#include "core/memory.h"

namespace fk {

struct ImageFile {
  // u8 [H, W, C], as files hold pixels; or f32 [C, H, W], already normalised for the model, which only .npy can hold.
  Tensor pixels;
  bool normalised = false;
};

// Throws Error that names the file and what is wrong.
ImageFile read_image(const std::string& path);

}  // namespace fk
