// Recognises what a clone without Git LFS holds in place of large files: a text of three lines that names the contents.
// Every reader would call it a broken file, and fetching it again the same way would change nothing.
#pragma once

#include <string_view>

#include "core/error.h"

namespace fk {

// `what`: how an error names the file. `contents`: what it should hold, as "the weights".
inline void refuse_lfs_pointer(std::string_view file, std::string_view what, std::string_view contents) {
  if (file.starts_with("version https://git-lfs"))
    throw Error("{} is a Git LFS pointer, not {}; run git lfs pull there.", what, contents);
}

}  // namespace fk
